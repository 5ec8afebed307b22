"""Answers of many queries at once have the ranks and scores that they have one by one."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.data.queries import Queries
from relens.prediction import Ensemble
from relens.prediction.questions import QueryIds
from tests.prediction.trained import INPUTS


def some_queries(ensemble):
    """Return queries of valid and test, and of random triples, most of which are false; one query has many answers."""
    rng = np.random.default_rng(3)
    dataset = ensemble.dataset
    random = np.column_stack(
        [rng.integers(0, size, 60) for size in (len(dataset.entities), len(dataset.relations), len(dataset.entities))]
    )
    crowd = np.column_stack([np.full(150, 5), np.full(150, 2), np.arange(150)])
    return Queries.from_triples(np.concatenate([dataset.valid[:20], dataset.test[:30], random, crowd, random[:5]]))


@pytest.mark.parametrize("name", INPUTS)
def test_they_are_those_of_the_ranking_of_each_query(run, name):
    ensemble = Ensemble.open(run, f"dsc-{name}")
    queries = some_queries(ensemble)
    found = ensemble.rank_answers(queries)
    rows = queries.columns().T.tolist()
    for at in range(0, len(rows), 50):
        batch = rows[at : at + 50]
        for number, ranking in enumerate(ensemble.voting.rankings([QueryIds(*row[:3]) for row in batch]), at):
            place = ranking.place(rows[number][3])
            assert (found.ranks.ahead[number], found.ranks.tied[number]) == place
            assert found.scores[number] == pytest.approx(ranking.score(rows[number][3]), rel=1e-6)


def test_the_evaluation_has_the_same_ranks(run):
    ensemble = Ensemble.open(run, "dsc-score")
    expected = ensemble.weights.answer_ranks(run.ranks("test"))
    found = ensemble.rank_answers(ensemble.dataset.queries("test"))
    np.testing.assert_array_equal(found.ranks.ahead, expected.ahead)
    np.testing.assert_array_equal(found.ranks.tied, expected.tied)


def test_each_distinct_query_is_scored_once_by_the_models_with_a_weight(run, monkeypatch):
    ensemble = Ensemble.open(run, "dsc-rank")
    queries = some_queries(ensemble)
    asked = {model: [] for model in ensemble.weights.models}
    scores = ensemble.models.scores

    def counting(model, part):
        assert len(part) <= ensemble.models.rows
        asked[model] += part.columns()[:3].T.tolist()
        return scores(model, part)

    monkeypatch.setattr(ensemble.models, "scores", counting)
    ensemble.rank_answers(queries)
    groups = ensemble.voting.groups[queries.relation, queries.direction]
    for number, model in enumerate(ensemble.weights.models):
        wanted = queries.columns()[:3].T[ensemble.weights.table[groups, number] > 0]
        assert sorted(asked[model]) == np.unique(wanted, axis=0).tolist()


def test_nothing_is_asked_without_queries(run):
    ensemble = Ensemble.open(run, "dsc-log")
    found = ensemble.rank_answers(Queries.from_triples(np.empty((0, 3))))
    assert (len(found.ranks), len(found.scores)) == (0, 0)


def test_new_entities_are_ranked_by_the_models_that_read_the_facts(town):
    facts = [("person_new", "works_at", "firm_3")]
    ensemble = Ensemble.open(town, "score", facts=facts)
    new = len(ensemble.dataset.entities) - 1
    queries = Queries.from_triples(np.array([[new, 0, 3], [4, 1, new], [5, 0, 6]]))
    found = ensemble.rank_answers(queries)
    for number, row in enumerate(queries.columns().T.tolist()):
        (ranking,) = ensemble.voting.rankings([QueryIds(*row[:3])])
        assert (found.ranks.ahead[number], found.ranks.tied[number]) == ranking.place(row[3])
        assert found.scores[number] == ranking.score(row[3])
