"""Paces: what is measured is a whole step if it is fast enough, and part of one otherwise; training is left alone."""

import pytest
import torch

from relens.data.catalog import load_dataset
from relens.training import pace
from relens.training.pace import Pace, measure_pace
from relens.training.settings import TrainSettings
from tests.pipeline.graph import write_ring
from tests.training.graphs import small_settings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return load_dataset(str(write_ring(tmp_path_factory.mktemp("graphs") / "ring")))


def test_a_training_takes_its_steps_and_validations():
    settings = TrainSettings("transe", steps=100, validate_every=30)
    assert Pace(2, 0.5, 3).seconds(settings) == 2 + 100 * 0.5 + 4 * 3
    assert Pace(2, 0.5, 3).per_step(settings) == 0.5 + 4 * 3 / 100
    assert Pace.from_json(Pace(2, 0.5, 3, exact=False).to_json()) == Pace(2, 0.5, 3, exact=False)


@pytest.mark.parametrize("model", ["transe", "complex", "conve", "nbfnet"])
def test_steps_and_a_validation_are_measured(dataset, model):
    state = torch.get_rng_state()
    found = measure_pace(dataset, small_settings(model, "batch=32"), CPU, seconds=0.01)
    assert found.exact
    assert min(found.begin, found.step, found.validation) > 0
    assert torch.equal(torch.get_rng_state(), state)


def test_a_step_that_takes_too_long_is_estimated_from_a_part(dataset, monkeypatch):
    batches = []
    real = pace.TrainingState

    def watched(model, queries, settings, asked):
        batches.append(settings.batch)
        return real(model, queries, settings, asked)

    monkeypatch.setattr(pace, "TrainingState", watched)
    settings = small_settings("transe", "batch=256", "pool_rows=8", "focus=0.5")
    found = measure_pace(dataset, settings, CPU, seconds=0.01, longest_step=0.0)
    assert (found.exact, found.validation, batches) == (False, 0.0, [16])
    assert found.step > 0


@pytest.mark.parametrize(("batch", "pool", "part"), [(512, 1, 32), (512, 64, 64), (8, 4, 4), (3, 3, 3), (5, 1, 1)])
def test_a_part_is_of_whole_pools(batch, pool, part):
    assert pace._part(TrainSettings("transe", batch=batch, pool_rows=pool)) == part


def test_a_large_validation_is_measured_on_a_sample(dataset, monkeypatch):
    asked = []
    real = pace.mean_reciprocal_rank

    def watched(model, competition):
        asked.append(len(competition))
        return real(model, competition)

    monkeypatch.setattr(pace, "mean_reciprocal_rank", watched)
    monkeypatch.setattr(pace, "VALIDATED", 3)
    measure_pace(dataset, small_settings("complex"), CPU, seconds=0.0)
    assert asked == [2, 6]
