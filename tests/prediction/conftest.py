"""Fixtures of the tests of predictions."""

import pytest

from relens.runs import Run


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained run; tests only read it."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    from tests.prediction.trained import make_run

    return make_run(tmp_path_factory.mktemp("runs") / "patterns")
