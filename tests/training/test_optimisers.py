import pytest
import torch
from torch import nn

from relens.training.optimisers import (
    Adagrad,
    Average,
    build_optimiser,
    forget,
    optimiser_tensors,
    restore_optimiser,
    set_rate,
)
from relens.training.settings import TrainSettings

CPU = torch.device("cpu")


def steps(optimiser: torch.optim.Optimizer, parameter: nn.Parameter, n: int) -> torch.Tensor:
    for _ in range(n):
        optimiser.zero_grad()
        (parameter - torch.arange(3.0)).pow(4).sum().backward()
        optimiser.step()
    return parameter.detach().clone()


def fresh() -> nn.Parameter:
    return nn.Parameter(torch.full((3,), 0.5))


def test_adagrad_is_pytorchs() -> None:
    ours, theirs = fresh(), fresh()
    torch.testing.assert_close(
        steps(Adagrad([ours], 0.3), ours, 20), steps(torch.optim.Adagrad([theirs], 0.3), theirs, 20)
    )


def test_adagrad_skips_parameters_without_gradient() -> None:
    used, unused = fresh(), fresh()
    steps(Adagrad([used, unused], 0.3), used, 2)
    assert unused.tolist() == [0.5] * 3
    Adagrad([unused], 0.3).step()


@pytest.mark.parametrize("name", ["adam", "adagrad"])
def test_restored_optimiser_goes_on(name) -> None:
    settings = TrainSettings(model="transe", optimiser=name, lr=0.1)
    first = fresh()
    optimiser = build_optimiser([first], settings, CPU)
    steps(optimiser, first, 5)
    second = nn.Parameter(first.detach().clone())
    again = build_optimiser([second], settings, CPU)
    restore_optimiser(again, {key: value.clone() for key, value in optimiser_tensors(optimiser).items()})
    assert torch.equal(steps(optimiser, first, 5), steps(again, second, 5))


@pytest.mark.parametrize("name", ["adam", "adagrad"])
def test_forgetting_is_beginning_anew(name) -> None:
    settings = TrainSettings(model="transe", optimiser=name, lr=0.1)
    first = fresh()
    optimiser = build_optimiser([first], settings, CPU)
    steps(optimiser, first, 5)
    forget(optimiser)
    second = nn.Parameter(first.detach().clone())
    assert torch.equal(steps(optimiser, first, 5), steps(build_optimiser([second], settings, CPU), second, 5))


def test_rates_are_set_in_place_where_they_are_tensors() -> None:
    parameter = fresh()
    rate = torch.tensor(0.3)
    optimiser = Adagrad([parameter], rate)
    set_rate(optimiser, 0.0)
    assert float(rate) == 0.0
    assert steps(optimiser, parameter, 2).tolist() == [0.5] * 3
    plain = Adagrad([parameter], 0.3)
    set_rate(plain, 0.1)
    assert plain.param_groups[0]["lr"] == 0.1


def test_weight_decay_is_adamws() -> None:
    ours, theirs = fresh(), fresh()
    settings = TrainSettings(model="transe", lr=0.1, weight_decay=0.2)
    expected = steps(torch.optim.AdamW([theirs], 0.1, weight_decay=0.2), theirs, 10)
    torch.testing.assert_close(steps(build_optimiser([ours], settings, CPU), ours, 10), expected)


def test_an_average_weighs_recent_parameters_more_and_those_before_the_first_step_not_at_all() -> None:
    parameter = fresh()
    average = Average([parameter], 0.5)
    for value in (1.0, 2.0, 4.0):
        with torch.no_grad():
            parameter.fill_(value)
        average.update()
    with average.in_place(3):
        expected = (0.5 * 4 + 0.25 * 2 + 0.125 * 1) / 0.875
        torch.testing.assert_close(parameter.detach(), torch.full((3,), expected))
    assert parameter.tolist() == [4.0] * 3
