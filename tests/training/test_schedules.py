import pytest
import torch

from relens.training.schedules import Schedule
from relens.training.settings import TrainSettings


def settings(**changes) -> TrainSettings:
    return TrainSettings(model="transe", lr=0.8, steps=100, **changes)


def test_plateau_lowers_the_rate_like_pytorch() -> None:
    schedule = Schedule(settings(schedule="plateau", factor=0.5, patience=2))
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.8)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, mode="max", factor=0.5, patience=2)
    mrrs = [0.1, 0.2, 0.2, 0.19, 0.200001, 0.21, *[0.21] * 8, 0.3, 0.1, 0.1, 0.1, 0.1]
    for step, mrr in enumerate(mrrs):
        schedule.record_validation(mrr)
        reference.step(mrr)
        assert schedule.rate(step) == pytest.approx(optimiser.param_groups[0]["lr"])
    assert schedule.scale == 0.5**4


def test_without_a_schedule_the_rate_stays() -> None:
    schedule = Schedule(settings())
    for _ in range(9):
        schedule.record_validation(0.1)
    assert schedule.rate(99) == 0.8
    assert not schedule.forgets(50)


def test_steps_lower_the_rate_at_milestones_and_forget() -> None:
    schedule = Schedule(settings(schedule="steps", factor=0.1, milestones=(20, 40)))
    rates = [schedule.rate(step) for step in (0, 19, 20, 39, 40, 99)]
    assert rates == pytest.approx([0.8, 0.8, 0.08, 0.08, 0.008, 0.008])
    assert [step for step in range(100) if schedule.forgets(step)] == [20, 40]


def test_linear_holds_and_then_falls() -> None:
    schedule = Schedule(settings(schedule="linear", hold=0.5))
    assert [schedule.rate(step) for step in (0, 50, 75, 100)] == pytest.approx([0.8, 0.8, 0.4, 0.0])
    assert Schedule(settings(schedule="linear", hold=1.0)).rate(99) == 0.8


def test_cosine_falls_to_its_floor() -> None:
    schedule = Schedule(settings(schedule="cosine", floor=0.1))
    assert [schedule.rate(step) for step in (0, 50, 100)] == pytest.approx([0.8, 0.8 * 0.55, 0.08])
    halves = [schedule.rate(step) - 0.44 for step in (25, 75)]
    assert halves == pytest.approx([0.36 * 0.5**0.5, -0.36 * 0.5**0.5])


@pytest.mark.parametrize("kind", [None, "cosine"])
def test_the_rate_rises_in_the_first_steps(kind) -> None:
    risen, plain = Schedule(settings(schedule=kind, warm_up=4)), Schedule(settings(schedule=kind))
    shares = [risen.rate(step) / plain.rate(step) for step in range(6)]
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])


def test_a_restored_schedule_goes_on() -> None:
    first = Schedule(settings(schedule="plateau", patience=1))
    for mrr in (0.5, 0.4, 0.4, 0.4):
        first.record_validation(mrr)
    second = Schedule(first.settings)
    second.restore(first.state())
    first.record_validation(0.4)
    second.record_validation(0.4)
    assert second == first
    assert second.scale == 0.25
