"""The training step on CUDA, captured as a graph where it can be."""

import logging

import pytest
import torch

from relens.models import MODELS
from relens.training.loop import new_model, optimise
from relens.training.settings import LOSSES
from relens.training.step import TrainingStep
from tests.training.graphs import N_ENTITIES, N_RELATIONS, TrainMRR, shifted_triples, small_settings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
TRIPLES = shifted_triples()


def train(settings, folder=None):
    model = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS).to("cuda")
    return model, optimise(model, TRIPLES, settings, validate=TrainMRR(TRIPLES), folder=folder, checkpoint_seconds=0)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_captured_and_learns_by_heart(model, caplog) -> None:
    settings = small_settings(model, "steps=400", "validate_every=50")
    with caplog.at_level(logging.WARNING):
        _, result = train(settings)
    assert "cannot be captured" not in caplog.text
    assert result.best_mrr > 0.95 or not MODELS[model].has_tables  # without tables there is no heart to learn by


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_captured(loss, caplog) -> None:
    changes = [f"loss={loss}", "regulariser=none", "negatives=6", "pool_rows=4", "dropout=0.1", "steps=60"]
    with caplog.at_level(logging.WARNING):
        _, result = train(small_settings("complex", *changes))
    assert "cannot be captured" not in caplog.text
    assert result.ending == "steps"


@pytest.mark.parametrize("optimiser", ["adam", "adagrad"])
def test_a_captured_step_follows_the_learning_rate(optimiser) -> None:
    # From the milestone on the rate is tiny: parameters must stand still, within the replayed graph as well.
    changes = ["steps=60", "schedule=steps", "factor=1e-6", "milestones=[20]", f"optimiser={optimiser}"]
    seen = []

    def validate(model) -> float:
        seen.append(model.entity.detach().clone())
        return float(len(seen))

    settings = small_settings("complex", *changes)
    model = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS).to("cuda")
    optimise(model, TRIPLES, settings, validate=validate)
    assert (seen[1] - seen[0]).abs().max() < 1e-3
    assert seen[0].abs().max() > 0.05


def test_replayed_and_plain_steps_learn_alike(monkeypatch) -> None:
    settings = small_settings("rotate", "steps=100", "validate_every=50")
    _, replayed = train(settings)
    monkeypatch.setattr(TrainingStep, "_capture", lambda self: None)
    _, plain = train(settings)
    assert replayed.best_mrr == pytest.approx(plain.best_mrr, abs=0.2)


def test_a_step_that_cannot_be_captured_runs_plainly(caplog, monkeypatch) -> None:
    settings = small_settings("complex", "steps=60")
    model = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS).to("cuda")
    encode = type(model).encode

    def reading(self, anchor, relation, *rest):
        anchor.sum().item()  # waits for the device, which a capture refuses
        return encode(self, anchor, relation, *rest)

    monkeypatch.setattr(type(model), "encode", reading)
    with caplog.at_level(logging.WARNING):
        result = optimise(model, TRIPLES, settings, validate=TrainMRR(TRIPLES))
    assert "cannot be captured as a CUDA graph and runs plainly" in caplog.text
    assert result.best_mrr > 0.9


def test_a_finished_run_is_loaded_from_its_checkpoint(tmp_path) -> None:
    settings = small_settings("transe", "steps=40")
    first, result = train(settings, tmp_path)
    second, again = train(settings, tmp_path)
    assert (again.best_mrr, again.step) == (result.best_mrr, result.step)
    assert torch.equal(first.entity, second.entity)
