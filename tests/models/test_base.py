"""The current GPU, and what every model offers."""

from contextlib import nullcontext

import torch

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
