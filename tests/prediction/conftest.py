"""Fixtures of the tests of predictions."""

import pytest

from relens.runs import Run


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained run; tests only read it."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    from tests.prediction.trained import make_run

    return make_run(tmp_path_factory.mktemp("runs") / "patterns")


@pytest.fixture(scope="package")
def town(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with a model that propagates; tests only read it."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    from tests.prediction.trained import make_town, make_town_run

    folder = make_town(tmp_path_factory.mktemp("graphs") / "town")
    return make_town_run(folder, tmp_path_factory.mktemp("runs") / "town")
