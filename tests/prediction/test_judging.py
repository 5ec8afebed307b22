"""Judged candidates, compared with loops over the questions."""

import numpy as np
import pytest

from relens.data.queries import Queries
from relens.prediction import judging
from relens.prediction.evidence import Candidates, evidence_of
from relens.prediction.judging import NEAR, THIN, Hidden, compared_with, judge, usual_scores
from relens.prediction.population import Population, SampleSize
from tests.prediction.judged_graph import SIZE, graph, panel_of, weights_of

DATASET = graph()
SPLITS = Hidden(("train",), "valid")


@pytest.mark.parametrize("input", ["score", "rank"])
def test_candidates_are_those_of_loops(input, monkeypatch):
    monkeypatch.setattr(judging, "PLACES", 25)
    population = Population.sample(DATASET, ("train",), "valid", size=SampleSize(20, 8))
    sets = weights_of(DATASET, (1, 0), input), weights_of(DATASET, (1, 3), input)
    panel = panel_of(DATASET, *sets)
    chosen = np.arange(len(population)) % 2
    found = judge(panel, population, SPLITS, chosen)
    for q in range(len(population)):
        asked = tuple(int(column[q]) for column in population[:3])
        split_of = DATASET.stated_answers.answers_to(*asked)
        rows = found.question == q
        kept = dict(zip(found.entity[rows].tolist(), found.true[rows].tolist(), strict=True))
        hidden = {e for e, split in split_of.items() if split == "valid"}
        possible = [e for e in range(SIZE) if split_of.get(e) not in ("train", "test") and e != asked[0]]
        assert set(kept) <= set(possible)
        assert {e for e, true in kept.items() if true} | hidden == hidden
        assert found.behind[:, q].tolist() == [max(0, len(possible) - 25), len(hidden) - sum(kept.values())]
        # Those that stand for others make up the best 25, but for the remainder of a division.
        assert abs(found.share[rows].sum() - min(25, len(possible))) < THIN
        assert sum(found.places[rows] <= NEAR) >= min(NEAR, len(possible)) - 1
        assert found.answered[q] == ("train" in split_of.values())
        # The evidence is that of the question's own weights.
        columns = [np.array([value]) for value in (*asked, 0, 0)]
        queries = Queries(*columns)
        scores = np.concatenate([panel.models.scores(model, queries) for model in ("first", "second")])
        row = sets[chosen[q]].table[0]
        used = row > 0
        mask = np.zeros(SIZE, dtype=bool)
        mask[possible] = True
        if input == "score":
            cost = -(row[used] / np.array([1.0, 2.0])[used]) @ scores[used].astype(np.float64)
            known = np.array([e for e, split in split_of.items() if split == "train"], dtype=np.int64)
            candidates = Candidates(scores[used], row[used], cost, mask, known)
            expected = evidence_of(candidates, found.entity[rows], panel.scales[used])
            np.testing.assert_allclose(found.features[rows], expected.features, atol=1e-6)


def test_usual_scores_are_means_and_deviations_of_known_answers():
    population = Population.sample(DATASET, ("train",), "valid")
    panel = panel_of(DATASET)
    found = usual_scores(judge(panel, population, SPLITS).sums)
    values = {group: [] for group in range(4)}
    for a, r, d in zip(population.anchor, population.relation, population.direction, strict=True):
        queries = Queries(*(np.array([int(value)]) for value in (a, r, d, 0, 0)))
        scores = [panel.models.scores(model, queries)[0] for model in ("first", "second")]
        for entity, split in DATASET.stated_answers.answers_to(int(a), int(r), int(d)).items():
            if split == "train":
                values[2 * int(r) + int(d)].append(2 / 3 * scores[0][entity] + 1 / 3 * scores[1][entity] / 2)
    for group, of_group in values.items():  # hundreds of answers: those of all groups hardly count
        assert found[0, group] == pytest.approx([np.mean(of_group), np.std(of_group)], rel=0.02)


def test_candidates_are_compared_with_the_first_known_split():
    split_of = {3: "valid", 5: "train", 6: "test", 7: "train"}
    assert compared_with(split_of, ("train", "valid", "test")).tolist() == [5, 7]
    assert compared_with({3: "valid", 6: "test"}, ("train", "valid", "test")).tolist() == [3]
    assert compared_with({6: "test"}, ("train", "valid")).tolist() == []
