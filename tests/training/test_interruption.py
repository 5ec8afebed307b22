"""Ctrl-C in training: nothing is lost, and the run ends as if nothing had happened."""

import signal
from pathlib import Path
from threading import Thread

import pytest
import torch

from relens.models import MODELS
from relens.training.checkpoint import newest_step
from relens.training.interruption import SIGNALS, Interruption
from relens.training.log import LOG, read_log
from relens.training.loop import TrainingObserver, new_model, optimise
from tests.training.graphs import N_ENTITIES, N_RELATIONS, TrainMRR, random_triples, small_settings

TRIPLES = random_triples()
CHANGES = ("steps=60", "validate_every=15", "log_every=5", "schedule=plateau", "patience=0")


@pytest.fixture(autouse=True)
def hears_signals():
    """Behave as in a terminal also where the tests run in the background, with Ctrl-C ignored."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_kept_until_the_work_asks(number):
    heard, before = [], signal.getsignal(number)
    with Interruption(lambda: heard.append(1)) as interruption:
        assert not interruption.requested
        signal.raise_signal(number)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert len(heard) == 2
    assert signal.getsignal(number) is before


def test_a_terminal_that_is_closed_may_say_so_again_and_again():
    """The shell tells the command, then the system does; the work between the two is not to be lost."""
    with Interruption() as outer:
        with Interruption() as inner:
            for _ in range(3):
                signal.raise_signal(signal.SIGHUP)
            assert inner.requested
        signal.raise_signal(signal.SIGHUP)
        assert not outer.requested
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_where_nothing_is_changed_a_signal_ends_the_work_at_once():
    with Interruption() as interruption:
        with pytest.raises(KeyboardInterrupt), interruption.immediate():
            signal.raise_signal(signal.SIGINT)
        assert interruption.requested


def interrupted(error: Exception, *, tells: bool) -> None:
    """Do work in which a signal arrives, and where an error takes the place of the interrupt, or tells of it."""
    with Interruption() as interruption, interruption.immediate():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as interrupt:
            raise error from interrupt if tells else None


def test_an_error_that_takes_the_place_of_the_interrupt_is_the_interrupt():
    with pytest.raises(KeyboardInterrupt):
        interrupted(SystemError("returned a result with an exception set"), tells=False)


def test_an_error_that_tells_of_the_interrupt_stays():
    with pytest.raises(RuntimeError, match="kept"):
        interrupted(RuntimeError("kept"), tells=True)


def test_without_a_signal_errors_stay_what_they_are():
    with pytest.raises(SystemError), Interruption() as interruption, interruption.immediate():
        raise SystemError


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGTERM)
    assert not interruption.requested


def test_in_another_thread_nothing_changes():
    found = []

    def work() -> None:
        with Interruption():
            found.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


class Trained:
    """A tiny model and how it is trained in a folder; a signal comes before some step, or in some validation."""

    def __init__(self, model: str) -> None:
        self.settings = small_settings(model, *CHANGES)

    def __call__(self, folder: Path, *, before: int | None = None, within: int | None = None, how: str = "signal"):
        asked, validated, validate = 0, 0, TrainMRR(TRIPLES)

        def stop() -> bool:
            nonlocal asked
            asked += 1
            if asked != before:
                return False
            if how == "signal":
                signal.raise_signal(signal.SIGINT)  # heard after this step
            return how == "stop"

        def interrupted(model) -> float:
            nonlocal validated
            validated += 1
            if validated == within:
                signal.raise_signal(signal.SIGTERM)
            return validate(model)

        model = new_model(self.settings, TRIPLES, N_ENTITIES, N_RELATIONS)
        result = optimise(
            model, TRIPLES, self.settings, validate=interrupted, folder=folder, observer=TrainingObserver(stop=stop)
        )
        log = [(line["step"], line["loss"], line["mrr"], line["lr"]) for line in read_log(folder / LOG)]
        return model.state_dict(), (result.step, result.best_step, result.best_mrr, result.ending), log


def assert_same(found, expected) -> None:
    assert found[1:] == expected[1:]
    assert all(torch.equal(found[0][name], expected[0][name]) for name in expected[0])


@pytest.mark.parametrize("model", ["complex", "conve", "rotate", "compgcn"])
def test_interrupted_at_any_step_a_run_ends_as_if_it_had_not_been(model, tmp_path) -> None:
    """At steps without a record, with one, in validations, once and again; the log is the same, too."""
    train = Trained(model)
    expected = train(tmp_path / "whole")
    folder = tmp_path / "interrupted"
    steps = []
    for options in (
        {"before": 8, "how": "stop"},
        {"before": 5},
        {"within": 1},
        {"within": 1},
        {"before": 1, "how": "stop"},
        {"within": 2},
        {"before": 12},
        {"within": 2},
    ):
        with pytest.raises(KeyboardInterrupt):
            train(folder, **options)
        steps.append(newest_step(folder))
    assert steps == [7, 12, 15, 15, 15, 30, 42, 60]
    assert_same(train(folder), expected)


@pytest.mark.parametrize("model", ["transe", "conve", "compgcn"])
def test_a_step_on_a_cpu_is_left_and_taken_again(model, tmp_path, monkeypatch) -> None:
    """Ctrl-C comes in the forward pass; running means and dropout end as if it had not come."""
    train = Trained(model)
    train.settings = small_settings(model, *CHANGES, "dropout=0.2")
    expected = train(tmp_path / "whole")
    owner, folder, steps = MODELS[model].model, tmp_path / "interrupted", []
    for method, calls in (("encode", 1), ("score", 4), ("encode", 12), ("score", 9)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, method, interrupted_after(getattr(owner, method), calls))
            with pytest.raises(KeyboardInterrupt):
                train(folder)
        steps.append(newest_step(folder))
    assert steps == sorted(steps)
    assert steps[-1] > 0
    assert_same(train(folder), expected)


def interrupted_after(method, calls: int):
    """Return a method that raises a signal at the end of one of its calls in training."""
    left = calls

    def counted(self, *arguments):
        nonlocal left
        result = method(self, *arguments)
        left -= self.training
        if left == 0 and self.training:
            left = -1
            signal.raise_signal(signal.SIGINT)
        return result

    return counted


def test_without_a_folder_nothing_is_kept() -> None:
    settings = small_settings("complex", *CHANGES)
    model = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS)
    with pytest.raises(KeyboardInterrupt):
        optimise(model, TRIPLES, settings, validate=TrainMRR(TRIPLES), observer=TrainingObserver(stop=lambda: True))
