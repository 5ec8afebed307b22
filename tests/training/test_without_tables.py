"""A model without embedding tables, from another package: it is trained, resumed, saved, loaded and ranked."""

import numpy as np
import pytest
import torch

from relens.data.dataset import Dataset
from relens.data.vocabulary import Vocabulary
from relens.errors import InputError
from relens.models import MODELS
from relens.packs.export import Ranker
from relens.ranking.competition import Competition
from relens.ranking.validation import answer_ranks
from relens.training.loop import TrainingObserver, new_model, optimise
from relens.training.objective import build_objective
from relens.training.presets import resolve_settings
from relens.training.queries import TrainingQueries
from relens.training.settings import LOSSES, TrainSettings
from relens.training.trained import TrainedModel, save_trained
from tests.models.toy import OWN, TOY, OwnObjective
from tests.training.graphs import N_ENTITIES, N_RELATIONS, TrainMRR, random_triples

GRAPH = Dataset(
    "tiny",
    Vocabulary("entity", tuple(f"e{i:02d}" for i in range(N_ENTITIES))),
    Vocabulary("relation", tuple(f"r{i}" for i in range(N_RELATIONS))),
    train=random_triples(0),
    valid=random_triples(1, 4),
    test=random_triples(2, 4),
)
TRIPLES = GRAPH.train
CHANGES = ["batch=16", "steps=60", "validate_every=15", "log_every=5", "optimiser=adagrad"]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for entry in (TOY, OWN):
        monkeypatch.setitem(MODELS._loaded, entry.name, entry)


class StopHereError(Exception):
    pass


def train(model, folder=None, *changes, until=None):
    """Train on the tiny graph with a checkpoint at every validation; stop by an exception at step ``until``."""

    def listen(record):
        if record.step == until:
            raise StopHereError

    settings = resolve_settings("tiny", model, "demo", [*CHANGES, *changes])
    built = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS)
    observer, validate = TrainingObserver(record=listen), TrainMRR(TRIPLES)
    result = optimise(
        built, TRIPLES, settings, validate=validate, folder=folder, checkpoint_seconds=0, observer=observer
    )
    return built, settings, result


def test_capabilities_are_those_of_the_class():
    assert (TOY.needs_triples, TOY.has_tables, TOY.scores_relations) == (True, False, False)
    assert (MODELS["complex"].has_tables, MODELS["complex"].scores_relations) == (True, True)
    assert not hasattr(TOY.build(3, 1, {}, torch.tensor([[0, 0, 1]])), "entity")


def test_presets_of_the_entry_are_used_and_otherwise_the_defaults():
    settings = resolve_settings("tiny", "toy", "demo")
    assert (settings.loss, settings.lr, settings.options) == ("1vsall", 0.1, {"scale": 2.0})
    assert resolve_settings("tiny", "toy", "best") == TrainSettings("toy", {"scale": 1.0})
    assert resolve_settings("tiny", "own", "demo", ["lr=1"]) == TrainSettings("own", {"scale": 1.0}, lr=1.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_trains_it(loss):
    settings = resolve_settings("tiny", "toy", "demo", [f"loss={loss}", "batch=16", "pool_rows=4", "negatives=6"])
    model = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS)
    before, validate = model.weight.detach().clone(), TrainMRR(TRIPLES)
    result = optimise(model, TRIPLES, settings, validate=validate)
    assert result.best_mrr > 0.35
    assert not torch.equal(model.weight, before)


@pytest.mark.parametrize("model", ["toy", "own"])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(model, tmp_path):
    expected, _, result = train(model)
    for until in (10, 20, 45):
        with pytest.raises(StopHereError):
            train(model, tmp_path, until=until)
    found, _, again = train(model, tmp_path)
    assert (again.step, again.best_step, again.best_mrr) == (result.step, result.best_step, result.best_mrr)
    assert torch.equal(found.weight, expected.weight)


def test_saved_loaded_and_ranked(tmp_path):
    model, settings, result = train("toy")
    save_trained(model.eval(), settings, result, GRAPH, tmp_path / "toy")
    loaded = TrainedModel.open(tmp_path / "toy").load(GRAPH)
    competition = Competition.from_dataset(GRAPH, "test")
    ranks = answer_ranks(loaded, competition).realistic
    np.testing.assert_array_equal(ranks, answer_ranks(model, competition).realistic)
    packed = Ranker({"toy": loaded, "again": model}, GRAPH).pack("test", tmp_path / "pack", None)
    assert packed.models == ("toy", "again")
    assert loaded.bytes_per_candidate == 4


def test_a_model_may_bring_its_own_objective():
    settings = resolve_settings("tiny", "own", "demo", ["alpha=3", "lr=0.1", "steps=200", "validate_every=200"])
    model = new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS)
    queries = TrainingQueries.from_triples(torch.from_numpy(TRIPLES.astype(np.int64)), N_ENTITIES, N_RELATIONS)
    objective, relation = build_objective(model, queries, settings)
    size = len(relation)
    assert size == len(queries)
    before = float(objective(torch.arange(size)).detach())
    optimise(model, TRIPLES, settings, validate=lambda model: 0.5)
    assert isinstance(model, OwnObjective)
    assert float(objective(torch.arange(size)).detach()) < before / 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"regulariser": "n3"}, "`regulariser=n3`, but toy has no embedding tables: set `regulariser=none`"),
        ({"initialiser": "norm"}, "`initialiser=norm`, but toy has no embedding tables: set `initialiser=none`"),
        ({"relation_weight": 0.3}, "`relation_weight=0.3`, but toy cannot score relations; complex, autoblm"),
    ],
)
def test_settings_that_need_tables_raise_an_error(changes, message):
    with pytest.raises(InputError, match=message):
        TrainSettings("toy", **changes)


def test_a_model_that_is_not_installed_is_only_missed_when_it_is_built():
    settings = TrainSettings.from_dict(TrainSettings("gone", {"dim": 3}, regulariser="n3").as_dict())
    with pytest.raises(InputError, match="unknown model 'gone'"):
        new_model(settings, TRIPLES, N_ENTITIES, N_RELATIONS)
