"""Scores of relations: the scales against loops, ranks of relations against loops, the choice on validation."""

from types import SimpleNamespace

import numpy as np
import pytest

from relens.data.dataset import Dataset
from relens.data.grouping import Grouping
from relens.data.vocabulary import Vocabulary
from relens.ensemble.weights import EnsembleWeights
from relens.prediction.relation_scale import PRIORS, SCALES, RelationRanker, known_relations, relation_ranks
from relens.progress import SILENT

N, R, E = 2, 4, 9


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 5, R, 2)).round(1), rng.normal(size=(N, 7, R, 2)).round(1)


def test_raw_divides_by_the_spread_of_a_model(scores):
    mine, others = scores
    for place in np.ndindex(mine.shape):
        values = others[place[0]].ravel().tolist()
        mean = sum(values) / len(values)
        spread = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
        assert SCALES["raw"](mine, others)[place] == pytest.approx(mine[place] / spread)


def test_standardised_takes_mean_and_spread_of_each_relation_and_direction(scores):
    mine, others = scores
    found = SCALES["standardised"](mine, others)
    for model, pair, relation, direction in np.ndindex(mine.shape):
        values = [others[model, other, relation, direction] for other in range(7)]
        mean = sum(values) / 7
        spread = (sum((value - mean) ** 2 for value in values) / 7) ** 0.5
        expected = (mine[model, pair, relation, direction] - mean) / spread
        assert found[model, pair, relation, direction] == pytest.approx(expected)


def test_rank_counts_the_other_pairs_that_are_ahead(scores):
    mine, others = scores
    found = SCALES["rank"](mine, others)
    for model, pair, relation, direction in np.ndindex(mine.shape):
        own = mine[model, pair, relation, direction]
        rivals = [others[model, other, relation, direction] for other in range(7)]
        doubled = 2 * (1 + sum(v > own for v in rivals)) + sum(v == own for v in rivals)
        assert found[model, pair, relation, direction] == pytest.approx(-np.log(doubled))


def test_equal_scores_of_others_are_no_division_by_zero():
    for scaled in SCALES.values():
        assert np.isfinite(scaled(np.ones((1, 2, 3, 2)), np.ones((1, 4, 3, 2)))).all()


def test_ranks_of_relations_leave_out_other_known_ones():
    rng = np.random.default_rng(1)
    triples = rng.integers(0, [4, R, 4], size=(60, 3))
    parts = [triples[:20], triples[20:45], triples[45:]]
    scores = rng.integers(0, 3, size=(len(parts[2]), R)).astype(float)
    known = known_relations(parts[2], parts, R)
    ranks = relation_ranks(scores, parts[2][:, 1], known)
    facts = set(map(tuple, triples.tolist()))
    for number, (head, relation, tail) in enumerate(parts[2].tolist()):
        assert known[number].tolist() == [(head, r, tail) in facts for r in range(R)]
        rivals = [scores[number, r] for r in range(R) if r != relation and (head, r, tail) not in facts]
        own = scores[number, relation]
        assert ranks.realistic[number] == 1 + sum(v > own for v in rivals) + sum(v == own for v in rivals) / 2


class Scores:
    """Models whose score of a triple is in a table, (E, R, E, 2)."""

    def __init__(self, tables):
        self.tables, self.asked = tables, []

    def answer_scores(self, name, queries, advance):
        self.asked.append(queries)
        q = queries
        head = np.where(q.direction == 0, q.anchor, q.answer)
        tail = np.where(q.direction == 0, q.answer, q.anchor)
        advance(len(q))
        return self.tables[name][head, q.relation, tail, q.direction]


@pytest.fixture
def setting():
    """Models a and b have weights, c has none; relation scores of a are shifted so that raw scores mislead."""
    rng = np.random.default_rng(2)
    labels = tuple(f"r{i}" for i in range(R))
    every = np.unique(rng.integers(0, [E, R, E], size=(160, 3)), axis=0)
    every = every[rng.permutation(len(every))]
    dataset = Dataset(
        "toy", Vocabulary("entity", tuple(f"e{i}" for i in range(E))), Vocabulary("relation", labels),
        every[:80], every[80:110], every[110:],
    )  # fmt: skip
    true = np.zeros((E, R, E, 1))
    true[tuple(every.T)] = 1
    shift = np.array([0, 5, -5, 20]).reshape(1, R, 1, 1)
    tables = {name: true + 0.4 * rng.normal(size=(E, R, E, 2)) + shift for name in "ab"}
    table = np.array([[1, 1, 0], [3, 1, 0], [1, 0, 0], [1, 2, 0]] * 2)
    grouping = Grouping.by_relation_and_direction(labels)
    ones = np.ones(8, dtype=np.int64)
    weights = EnsembleWeights(("a", "b", "c"), labels, grouping, table, ones > 0, np.array([1, 1, 1]), ones)
    models = Scores(tables)
    ranker = RelationRanker(models, weights, grouping.table, dataset)
    return SimpleNamespace(dataset=dataset, models=models, weights=weights, ranker=ranker)


def test_the_score_is_the_weighted_mean_of_models_and_directions(setting):
    ranker = setting.ranker
    scale = ranker.choose_scale(SILENT)
    pairs = np.array([[0, 3], [4, 4], [8, 1]])
    found, of_models = ranker.rank(pairs, scale, SILENT)
    tables = setting.models.tables
    mine = np.stack([np.stack([tables[m][h, :, t] for h, t in pairs.tolist()]) for m in "ab"])
    scaled = SCALES[scale.name](mine, scale.others)
    counts = [sum(row[1] == r for row in setting.dataset.train.tolist()) + 1 for r in range(R)]
    for pair, relation in np.ndindex(3, R):
        expected = scale.prior * np.log(counts[relation] / sum(counts))
        for direction in (0, 1):
            weights = setting.weights.table[2 * relation + direction]
            for model in (0, 1):
                share = weights[model] / sum(weights) / 2
                expected += share * scaled[model, pair, relation, direction]
        assert found[pair, relation] == pytest.approx(expected)
    np.testing.assert_allclose(of_models, scaled.mean(axis=3))
    assert ranker.names == ("a", "b")


def test_validation_chooses_the_scale_and_nothing_looks_at_test(setting):
    scale = setting.ranker.choose_scale(SILENT)
    assert set(scale.tried) == {(name, prior) for name in SCALES for prior in PRIORS}
    assert scale.tried[scale.name, scale.prior] == max(scale.tried.values())
    assert scale.name != "raw"  # the scores of relations are shifted
    assert scale.tried[scale.name, 0.0] > scale.tried["raw", 0.0]
    assert scale.triples == len(setting.dataset.valid)
    d = setting.dataset
    other = Dataset("other", d.entities, d.relations, d.train, d.valid, d.train[:3])
    again = RelationRanker(setting.models, setting.weights, setting.weights.grouping.table, other)
    assert again.choose_scale(SILENT).tried == scale.tried


def test_without_validation_scores_are_standardised(setting):
    d = setting.dataset
    bare = Dataset("bare", d.entities, d.relations, d.train, d.valid[:0], d.test)
    ranker = RelationRanker(setting.models, setting.weights, setting.weights.grouping.table, bare)
    scale = ranker.choose_scale(SILENT)
    assert (scale.describe(), scale.triples, dict(scale.tried)) == ("standardised, prior 0", 0, {})
