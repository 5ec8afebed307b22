"""What all tests share: an environment, no deadlines for Hypothesis (a kernel's first call compiles it), a tiny run.

The environment is set before anything is imported that reads it.
"""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Where there is no GPU, Triton's kernels run in its interpreter.
if not Path("/dev/nvidia0").exists():
    os.environ["TRITON_INTERPRET"] = "1"
# Ctrl-C is ignored in what a shell without a terminal runs in the background, and what tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Numba mixes up kernels that two processes add to its cache at the same time: each worker of pytest-xdist has its own.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    caches = os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent.parent / ".pytest_cache" / "numba"
    os.environ["NUMBA_CACHE_DIR"] = str(Path(caches) / worker)

settings.register_profile("relens", deadline=None)
settings.load_profile("relens")


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three simulated models; tests only read it."""
    from tests import simulated

    return simulated.write_run(tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture
def run_path(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of the tiny run, to write into."""
    return Path(shutil.copytree(tiny_run, tmp_path / "tiny"))
