"""Setup of all tests: an environment, no deadlines for Hypothesis (a kernel's first call compiles it), a tiny run.

The environment is set before anything is imported that reads it.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Where there is no GPU, Triton's kernels run in its interpreter.
if not Path("/dev/nvidia0").exists():
    os.environ["TRITON_INTERPRET"] = "1"
# A shell without a terminal starts background work with Ctrl-C ignored, and nohup ignores hang-ups. Commands that tests
# start would inherit both.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
# Drawing an example may compile a kernel, which takes a minute on a busy machine: slowness says nothing here.
settings.register_profile("relens", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("relens")

QUICK = frozenset(
    f"tests/{file}.py"
    for file in (
        "cli/test_console", "cli/test_options", "clusters/test_parallel", "data/test_grouping",
        "data/test_known_answers", "data/test_queries", "ensemble/test_grid", "ensemble/test_inputs",
        "importers/test_importer", "models/test_base", "models/test_layers", "packs/test_store", "pipeline/test_plan",
        "prediction/test_names", "ranking/test_answer_ranks", "ranking/test_memory", "reports/test_style",
        "serve/test_worker", "test_comparison", "test_errors", "test_evaluation", "test_layering", "test_metrics",
        "test_records", "test_registry", "test_runs", "test_seeding", "test_shape", "test_significance", "test_tables",
        "training/test_losses", "training/test_schedules", "training/test_settings",
    )
)  # fmt: skip
"""Files whose tests carry the mark ``quick``: a minute in all, and a look at every package."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick tests."""
    root = Path(__file__).parent.parent
    for item in items:
        if item.path.relative_to(root).as_posix() in QUICK:
            item.add_marker(pytest.mark.quick)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three simulated models; tests only read it."""
    from tests import simulated

    return simulated.write_run(tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture
def run_path(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of the tiny run, to write into."""
    return Path(shutil.copytree(tiny_run, tmp_path / "tiny"))
