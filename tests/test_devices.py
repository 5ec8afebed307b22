"""Devices of a run."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from torch import device

from relens.devices import check_devices, training_places
from relens.errors import InputError

CPU, FIRST, SECOND = device("cpu"), device("cuda:0"), device("cuda:1")


def test_only_a_single_cpu_is_shared_by_jobs():
    assert training_places([CPU], 3) == [CPU, CPU, CPU]
    assert training_places([CPU, CPU], 3) == [CPU, CPU]
    assert training_places([FIRST], 3) == [FIRST]
    assert training_places([FIRST, SECOND, SECOND], 1) == [FIRST, SECOND, SECOND]


def test_devices_of_two_kinds_are_refused():
    check_devices([FIRST, SECOND, FIRST])
    with pytest.raises(InputError, match=r"devices are cuda:0, cpu, expected one or more of one kind.*Name GPUs only"):
        check_devices([FIRST, CPU])
    with pytest.raises(InputError, match="devices are none"):
        check_devices([])
