"""The package ogb 1.3.6, where it is installed: the oracle for its own layout and its own evaluator."""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

MISSING = "ogb and torch are not installed: pip install 'relens[oracle]'"
Metrics = Callable[[npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]


def linkproppred() -> Any:
    """Return ``ogb.linkproppred``, or skip the test that asks for it."""
    pytest.importorskip("torch", reason=MISSING)
    # Without the package outdated, ogb does not ask the network for its newest version.
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setitem(sys.modules, "outdated", None)
        module = pytest.importorskip("ogb.linkproppred", reason=MISSING)
        version = sys.modules["ogb"].__version__
    if version != "1.3.6":
        pytest.skip(f"ogb {version} is installed, the oracle is 1.3.6: pip install 'relens[oracle]'")
    return module


def metrics() -> Metrics:
    """Return ogb's metrics of scores (Q, 501) whose column 0 is the answer's."""
    evaluator = linkproppred().Evaluator(name="ogbl-biokg")
    import torch

    def of(scores: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        tensor = torch.tensor(np.ascontiguousarray(scores))
        found = evaluator.eval({"y_pred_pos": tensor[:, 0], "y_pred_neg": tensor[:, 1:]})
        return {name: values.numpy() for name, values in found.items()}

    return of


def read_with_ogb(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the graph and the splits that ogb reads, its ``torch.load`` patched to load pickles."""
    module = linkproppred()
    import torch

    monkeypatch.setattr(torch, "load", partial(torch.load, weights_only=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = module.LinkPropPredDataset(name=name, root=str(root))
        return dataset[0], dataset.get_edge_split()
