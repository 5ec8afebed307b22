"""Devices by name."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch

from relens.cli.device import pick_devices
from relens.errors import InputError


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.mark.usefixtures("two_gpus")
def test_several_devices_keep_their_order_and_may_be_named_twice():
    assert list(map(str, pick_devices("cuda:1, cuda:0,cuda:1"))) == ["cuda:1", "cuda:0", "cuda:1"]
    assert list(map(str, pick_devices("auto"))) == ["cuda"]


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("cuda:0,cuda:2", "device 'cuda:2' is not here, but cpu, cuda:0, cuda:1: name one of these"),
        ("meta", "device 'meta' is not here"),
        ("cuda:0,gpu", "unknown device 'gpu': expected auto, cpu, cuda or cuda:N"),
        ("cuda:0,", "unknown device ''"),
    ],
)
def test_a_device_that_is_not_here_is_refused(names, message):
    with pytest.raises(InputError, match=message):
        pick_devices(names)
