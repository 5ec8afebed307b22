"""What all tests share: no deadlines for Hypothesis (the first call of a kernel compiles it), and a tiny run.

Where there is no GPU, Triton's kernels run in its interpreter; it has to be asked for before anything imports Triton.
"""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from tests import simulated

if not Path("/dev/nvidia0").exists():
    os.environ["TRITON_INTERPRET"] = "1"
settings.register_profile("relens", deadline=None)
settings.load_profile("relens")


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three simulated models; tests only read it."""
    return simulated.write_run(tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture
def run_path(tiny_run: Path, tmp_path: Path) -> Path:
    """A copy of the tiny run, to write into."""
    return Path(shutil.copytree(tiny_run, tmp_path / "tiny"))
