"""Predictions of trained models: the evaluation's own ranks, names in and out, no more models than needed."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch

from relens.data.queries import DIRECTIONS, Queries
from relens.ensemble.search import search
from relens.ensemble.weights import EnsembleWeights
from relens.errors import DatasetError, InputError, RelensError, WeightsError
from relens.files import read_json
from relens.packs.export import Ranker
from relens.prediction import Ensemble, ranked_device
from relens.prediction.members import LoadedModels
from relens.prediction.voting import Voting
from relens.runs import MADE_BY, Run
from relens.training.loop import TrainingResult
from relens.training.trained import TrainedModel, save_trained
from tests.cli.commands import succeed
from tests.oracles import mean_rank
from tests.prediction.trained import INPUTS, MODELS

SITE, NORTH = "site_04_17", "north_neighbour"


@pytest.fixture(scope="module")
def ensemble(run):
    return Ensemble.open(run, "dsc-log")


def questions(ensemble, split):
    """Ask all queries of a split: (anchor, relation, direction) and the answer, in labels."""
    entities, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    q = ensemble.dataset.queries(split)
    columns = zip(q.anchor, q.relation, q.direction, q.answer, strict=True)
    return [((entities[a], relations[r], DIRECTIONS[d]), entities[t]) for a, r, d, t in columns]


def given(anchor, relation, direction):
    return {"relation": relation, "head" if direction == "tail" else "tail": anchor}


@pytest.mark.parametrize(("name", "split"), [("rank", "valid"), *((name, "test") for name in INPUTS)])
def test_every_answer_has_the_rank_of_the_evaluation(run, name, split):
    ensemble = Ensemble.open(run, f"dsc-{name}")
    expected = ensemble.weights.answer_ranks(run.ranks(split)).realistic
    asked, id_of = questions(ensemble, split), ensemble.dataset.entities.id_of
    found = []
    for at in range(0, len(asked), 64):
        batch = asked[at : at + 64]
        standings = ensemble.voting.rankings([ensemble.resolve(*question) for question, _ in batch])
        found += [standing.place(id_of(answer)).rank for standing, (_, answer) in zip(standings, batch, strict=True)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", INPUTS)
def test_the_rank_in_a_list_is_the_rank_of_the_evaluation(run, name):
    ensemble = Ensemble.open(run, f"dsc-{name}")
    expected = ensemble.weights.answer_ranks(run.ranks("test")).realistic
    asked = questions(ensemble, "test")
    some = [i for i in range(3, len(asked), 97) if expected[i] <= 50]
    lists = ensemble.predict_many([asked[i][0] for i in some], top=300)
    for i, predictions in zip(some, lists, strict=True):
        question, answer = asked[i]
        assert ensemble.rank_of(answer, **given(*question)) == expected[i]
        (row,) = (prediction for prediction in predictions if prediction.entity == answer)
        assert (row.rank, row.known is None) == (expected[i], False)


@pytest.mark.parametrize("model", MODELS)
def test_the_shape_of_a_batch_is_that_of_the_ranking_or_does_not_matter(run, ensemble, model):
    # The ranking scored all queries of a split at once, predictions take 64: the scores are the same to the last bit.
    trained = TrainedModel.open(run.model_path(model) / "trained").load(ensemble.dataset)
    ranker = Ranker({model: trained}, ensemble.dataset)
    queries = ensemble.dataset.queries("valid")
    assert len(queries) <= ranker.batches.rows
    together = ranker._scores(queries)[0].numpy()
    for some in (np.array([5]), np.arange(700, 764), np.arange(0, 2200, 80)):
        np.testing.assert_array_equal(ensemble.models.scores(model, queries[some]), together[some])


def test_each_vote_is_the_models_own_rank(ensemble):
    found = ensemble.predict(head=SITE, relation=NORTH, top=6)
    dataset = ensemble.dataset
    known = {t for h, r, t in np.concatenate(list(dataset.splits.values())).tolist()
             if (dataset.entities.labels[h], dataset.relations.labels[r]) == (SITE, NORTH)}  # fmt: skip
    assert found.candidates == len(dataset.entities) - len(known)
    anchor, relation = dataset.entities.id_of(SITE), dataset.relations.id_of(NORTH)
    question = Queries.from_columns(np.array([[anchor], [relation], [0], [0], [0]]))
    group = ensemble.weights.grouping.table[relation, 0]
    weights = dict(zip(ensemble.weights.models, ensemble.weights.normalised()[group], strict=True))
    for prediction in found:
        assert [vote.model for vote in prediction.votes] == sorted(
            (m for m in weights if weights[m]), key=lambda m: -weights[m]
        )
        assert sum(vote.weight for vote in prediction.votes) == pytest.approx(1)
        column = dataset.entities.id_of(prediction.entity)
        for vote in prediction.votes:
            assert vote.weight == weights[vote.model]
            (row,) = ensemble.models.scores(vote.model, question)
            assert vote.rank == mean_rank(row.tolist(), column, known - {column})


def test_known_facts_are_marked_or_dropped(ensemble):
    marked = ensemble.predict(head="officer_2_03", relation="outranks", top=2000)
    dropped = ensemble.predict(head="officer_2_03", relation="outranks", top=2000, known="drop")
    assert tuple(prediction for prediction in marked if prediction.known is None) == dropped[:]
    assert len(dropped) + 1 == dropped.candidates == marked.candidates  # the officer himself is not offered
    labels, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    facts = {
        labels[t]: split
        for split, triples in ensemble.dataset.splits.items()
        for h, r, t in triples.tolist()
        if (labels[h], relations[r]) == ("officer_2_03", "outranks")
    }
    assert {p.entity: p.known for p in marked if p.known} == facts
    assert set(facts.values()) >= {"train"}
    assert all(p.confidence is None for p in marked if p.known)
    ranks = [prediction.rank for prediction in marked]
    assert ranks == sorted(ranks)


def test_an_entity_is_its_own_answer_only_where_a_relation_has_such_facts(ensemble, monkeypatch):
    asked = {"head": "officer_2_03", "relation": "outranks", "top": 2000}
    without = ensemble.predict(**asked)
    monkeypatch.setattr(ensemble.voting, "loops", np.ones_like(ensemble.voting.loops))
    all_ = ensemble.predict(**asked)
    (own,) = (p for p in all_ if p.entity == "officer_2_03")
    # It takes a place from those behind it.
    taken = [p if p.place is None or p.rank < own.rank else replace(p, place=p.place - 1) for p in all_ if p != own]
    assert taken == list(without)
    assert len(all_) == len(without) + 1


def test_known_facts_come_in_addition(ensemble):
    asked = {"head": "officer_2_03", "relation": "outranks"}
    n_facts = len(ensemble.dataset.entities) - ensemble.predict(**asked).candidates
    assert n_facts > 3
    for top in (1, 3, 30):
        marked, dropped = (ensemble.predict(**asked, top=top, known=known) for known in ("mark", "drop"))
        assert tuple(prediction for prediction in marked if prediction.known is None) == dropped[:]
        assert (len(dropped), len(marked)) == (top, top + min(top, n_facts))


def test_many_questions_are_answered_like_one_each(ensemble):
    asked = [question for question, _ in questions(ensemble, "test")[100:230]]
    together = list(ensemble.predict_many(iter(asked), top=4, known="drop"))
    assert [(p.anchor, p.relation, p.direction) for p in together] == asked
    for question, predictions in list(zip(asked, together, strict=True))[::13]:
        assert ensemble.predict(**given(*question), top=4, known="drop") == predictions


class Counting:
    """Progress that keeps what it is told."""

    def __init__(self):
        self.total, self.done = None, []

    @contextmanager
    def task(self, description: str, total: float) -> Iterator:
        assert description == "predicting"
        self.total = total
        yield self.done.append


def test_bulk_prediction_asks_for_a_batch_at_a_time(ensemble):
    question, taken, progress = (SITE, NORTH, "tail"), [], Counting()

    class Endless:
        def __len__(self):
            return 10**9

        def __iter__(self):
            while True:
                taken.append(1)
                yield question

    answers = ensemble.predict_many(Endless(), top=1, progress=progress)
    for _ in range(65):
        next(answers)
    assert len(taken) == 128
    assert (progress.total, progress.done) == (10**9, [64])
    answers.close()


def only(weights, model, relation, direction):
    """Return weights that trust one model alone in one group, and equal ones elsewhere."""
    table = np.ones_like(weights.table)
    group = weights.grouping.table[weights.relations.index(relation), DIRECTIONS.index(direction)]
    table[group] = [int(name == model) for name in weights.models]
    return replace(weights, table=table)


def test_only_models_with_a_weight_are_loaded(run):
    weights = only(EnsembleWeights.load(run.weights_path("dsc-rank")), "complex", NORTH, "tail")
    ensemble = Ensemble(Voting(weights, LoadedModels(run, Ensemble.open(run, "dsc-rank").dataset, "cpu")))
    assert ensemble.models.loaded == {}
    found = ensemble.predict(head=SITE, relation=NORTH, known="drop")
    assert list(ensemble.models.loaded) == ["complex"]
    assert [(vote.model, vote.weight) for vote in found[0].votes] == [("complex", 1.0)]
    assert [vote.rank for prediction in found for vote in prediction.votes] == [prediction.rank for prediction in found]
    model = ensemble.models.loaded["complex"]
    ensemble.predict(tail=SITE, relation=NORTH)
    assert set(ensemble.models.loaded) == set(MODELS)
    assert ensemble.models.loaded["complex"] is model


def test_records_are_plain_json_values(ensemble):
    found = ensemble.predict(tail=SITE, relation=NORTH, top=3)
    assert found.question == f"(?, {NORTH}, {SITE})"
    assert json.loads(json.dumps(found.to_json(), allow_nan=False)) == found.to_json()
    assert list(found.to_json()) == [
        "anchor", "relation", "relation_name", "direction", "candidates", "restriction", "answers", "notes",
    ]  # fmt: skip
    assert found.to_json()["anchor"] == SITE
    records = found.to_records()
    assert [record["entity"] for record in records] == [prediction.entity for prediction in found]
    assert records[1]["votes"][0] == {
        "model": found[1].votes[0].model, "rank": found[1].votes[0].rank, "weight": found[1].votes[0].weight,
    }  # fmt: skip


def test_a_data_frame_has_a_row_per_answer(ensemble, monkeypatch):
    found = ensemble.predict(head=SITE, relation=NORTH, top=3)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RelensError, match="needs pandas: pip install pandas"):
        found.to_pandas()
    monkeypatch.undo()
    pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert frame["entity"].tolist() == [prediction.entity for prediction in found]
    vote = found[2].votes[0]
    assert frame.loc[2, f"rank {vote.model}"] == vote.rank
    assert frame.loc[2, f"weight {vote.model}"] == vote.weight


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"head": "site_0417", "relation": NORTH}, "unknown entity 'site_0417'; did you mean 'site_04_17'"),
        (
            {"head": SITE, "relation": "north_neighbor"},
            "unknown relation 'north_neighbor'; did you mean 'north_neighbour'",
        ),
        ({"relation": NORTH}, "found neither of `head=…` and `tail=…`"),
        ({"head": SITE, "relation": NORTH, "top": 0}, "`top=0` asks for no answers: expected at least 1"),
        ({"head": SITE, "relation": NORTH, "known": "hide"}, "unknown value `known=hide`; available: 'drop', 'mark'"),
    ],
)
def test_wrong_questions_are_refused(ensemble, asked, message):
    with pytest.raises(InputError) as caught:
        ensemble.predict(**asked)
    assert message in str(caught.value)


def test_a_wrong_direction_is_refused(ensemble):
    with pytest.raises(InputError, match="unknown direction 'up': expected the missing side, tail or head"):
        next(ensemble.predict_many([(SITE, NORTH, "up")]))


@pytest.fixture
def copied(run, tmp_path):
    return Run.open(shutil.copytree(run.path, tmp_path / "copy"))


def test_the_weights_are_found_by_name(copied):
    with pytest.raises(WeightsError, match=r"several weights: choose one with `weights={dsc-log,dsc-rank,dsc-score}`"):
        Ensemble.open(copied)
    with pytest.raises(WeightsError, match="has no weights 'dsc-rnak'; did you mean 'dsc-rank'"):
        Ensemble.open(copied, "dsc-rnak")
    copied.keep_weights("dsc", copied.weights("dsc-rank"))
    copied.weights_path("dsc-rank").unlink()
    assert Ensemble.open(str(copied.path)).weights.input == "rank"
    for name in ("dsc-log", "dsc"):
        copied.weights_path(name).unlink()
    assert Ensemble.open(copied).weights.input == "score"
    copied.weights_path("dsc-score").unlink()
    with pytest.raises(WeightsError, match="has no weights yet: search them with `relens search"):
        Ensemble.open(copied)


def test_a_run_without_models_is_refused(tiny_run, copied):
    """Before anything is said of weights, which would not help."""
    with pytest.raises(InputError, match="tiny holds ranks only, and predictions need the models that made them"):
        Ensemble.open(tiny_run)
    shutil.rmtree(copied.path / "models")
    with pytest.raises(InputError, match="copy holds ranks only"):
        Ensemble.open(copied, "dsc-rank")


def test_mismatched_weights_ranks_and_data_are_refused(copied, tmp_path):
    weights = EnsembleWeights.load(copied.weights_path("dsc-rank"))
    replace(weights, dataset=("patterns", "0" * 16)).save(copied.weights_path("other"))
    with pytest.raises(WeightsError, match=r"the graph in .*copy is another one"):
        Ensemble.open(copied, "other")
    (copied.path / "graph").rename(tmp_path / "graph")
    with pytest.raises(DatasetError, match=r"has no graph: .*Add the graph with `relens upgrade"):
        Ensemble.open(copied, "dsc-rank")
    shutil.rmtree(copied.model_path("rotate"))
    with pytest.raises(InputError, match="but no model 'rotate': predictions need the models themselves"):
        Ensemble.open(copied, "dsc-rank")


def trained_again(run, name):
    """Give a model of a run other parameters, with all that says so."""
    trained = TrainedModel.open(run.model_path(name) / "trained")
    dataset = run.graph()
    model = trained.load(dataset)
    with torch.no_grad():
        first = next(model.parameters())
        first.copy_(first.flip(0))
    save_trained(model, trained.settings, TrainingResult(**trained.result), dataset, trained.folder)


def test_models_trained_after_the_ranking_are_refused(copied):
    trained_again(copied, "rotate")
    message = (
        f"{copied.path}: rotate was trained again after the run was ranked: rank and search again, e.g. "
        f"`relens rank {copied.path} --force; relens search {copied.path}`"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        Ensemble.open(copied, "dsc-rank")
    weights = EnsembleWeights.load(copied.weights_path("dsc-rank"))
    table = weights.table * [name != "rotate" for name in weights.models] + [n == "transe" for n in weights.models]
    replace(weights, table=table).save(copied.weights_path("others"))
    assert Ensemble.open(copied, "others").predict(head=SITE, relation=NORTH)
    succeed("rank", copied.path, "--force", "--device", "cpu")
    with pytest.raises(WeightsError, match=r"fitted on other validation ranks .*: search again with `relens search"):
        Ensemble.open(copied, "dsc-rank")
    search(copied.ranks("valid"), method="mean", input="rank").save(copied.weights_path("mean"))
    assert Ensemble.open(copied, "mean").predict(head=SITE, relation=NORTH)


def test_weights_of_some_models_belong_to_the_ranks_of_all(copied):
    some = copied.ranks("valid").select_models(["rotate", "transe"])
    weights = search(some, method="mean", input="rank")
    weights.save(copied.weights_path("some"))
    assert Ensemble.open(copied, "some").weights.models == ("rotate", "transe")
    replace(weights, fitted_on="0" * 16).save(copied.weights_path("some"))
    with pytest.raises(WeightsError, match=r"fitted on other validation ranks \(0{16}\)"):
        Ensemble.open(copied, "some")
    replace(weights, fitted_on="").save(copied.weights_path("some"))
    assert Ensemble.open(copied, "some")


def test_ranks_of_unknown_origin_are_taken_as_they_are(copied):
    (copied.path / "ranks" / MADE_BY).unlink()
    trained_again(copied, "rotate")
    assert Ensemble.open(copied, "dsc-rank")


@pytest.mark.parametrize(
    ("ranked", "gpu", "expected"),
    [("cpu", True, "cpu"), ("cpu", False, "cpu"), ("cuda", True, "cuda"), ("cuda", False, "cpu"), (None, True, "cpu")],
)
def test_the_device_is_that_of_the_ranking_if_it_is_here(copied, monkeypatch, ranked, gpu, expected):
    record = copied.path / "ranks" / MADE_BY
    if ranked is None:
        record.unlink()
    else:
        record.write_text(json.dumps(read_json(record, "record") | {"device": ranked}))
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    assert ranked_device(copied) == Ensemble.open(copied, "dsc-rank").models.device == expected
    assert Ensemble.open(copied, "dsc-rank", "cpu").models.device == torch.device("cpu")
