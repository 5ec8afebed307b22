"""The current GPU, and what every model offers."""

from contextlib import nullcontext

import pytest
import torch

from relens.errors import InputError
from relens.models import MODELS
from relens.models.base import current


def test_a_gpu_is_made_the_current_one_and_the_cpu_changes_nothing(monkeypatch) -> None:
    entered: list[torch.device] = []

    def enter(device: torch.device) -> nullcontext[None]:
        entered.append(device)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "device", enter)
    with current(torch.device("cpu")):
        assert entered == []
    with current(torch.device("cuda:1")):
        assert entered == [torch.device("cuda:1")]


def test_a_model_that_learns_its_entities_has_no_paths_and_reads_no_other_graph() -> None:
    model = MODELS.find("transe").build(4, 2, {"dim": 4})
    assert not MODELS.find("transe").propagates
    assert model.explain(0, 1, 2, 5) == []
    with pytest.raises(InputError, match="TransE learnt its entities in training, and cannot read another graph"):
        model.read(torch.zeros(0, 3, dtype=torch.long), 5)
    assert MODELS.find("nbfnet").propagates
