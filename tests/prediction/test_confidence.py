"""The confidence on a graph that lacks facts of one relation and none of another, by models that are made up."""

from types import SimpleNamespace

import numpy as np
import pytest

from relens.data.queries import Queries
from relens.ensemble.inputs import INPUTS
from relens.errors import InputError
from relens.files import read_json, write_json
from relens.prediction import confidence as module
from relens.prediction.candidate_ranking import CandidateRanking
from relens.prediction.confidence import LEAST_QUESTIONS, Confidence, made_from
from relens.prediction.evidence import Candidates, Evidence
from relens.prediction.judging import PLACES, Hidden, judge
from relens.prediction.population import Population
from relens.records import RecordKind
from tests.prediction.judged_graph import RUN, SIZE, graph, panel_of, weights_of

DATASET = graph()
COMPLETE, OPEN = (DATASET.relations.id_of(label) for label in ("complete", "open"))


def fitted(least=None):
    population = Population.sample(DATASET, ("train",), "valid")
    weights = weights_of(DATASET)
    panel = panel_of(DATASET, *[weights] * 6)
    fold = np.arange(len(population)) % 5
    judgement = judge(panel, population, Hidden(("train",), "valid"), 1 + fold)
    return Confidence.fit(
        weights, panel.scales, judgement, (population.weight, fold), made_from(RUN, weights)
    ), judgement


@pytest.fixture(scope="module")
def found():
    return fitted()


def candidates(panel, anchor, relation, direction, known):
    queries = Queries(*(np.array([value]) for value in (anchor, relation, direction, 0, 0)))
    scores = np.concatenate([panel.models.scores(model, queries) for model in ("first", "second")])
    weights = panel.sets[0]
    split_of = DATASET.stated_answers.answers_to(anchor, relation, direction)
    answers = np.array([e for e, split in split_of.items() if split in known], dtype=np.int64)
    trained = np.array([e for e, split in split_of.items() if split == "train"], dtype=np.int64)
    ranking = CandidateRanking(scores, answers, weights.table[0], INPUTS["score"], weights.gap_scales)
    return Candidates.of(ranking, anchor, trained), split_of


def test_where_nothing_is_missing_probabilities_are_near_zero(found):
    panel, first = panel_of(DATASET), []
    for anchor in range(SIZE):
        asked, _ = candidates(panel, anchor, COMPLETE, 0, ("train", "valid", "test"))
        possible = np.flatnonzero(asked.possible)
        stated = found[0].probability(2 * COMPLETE, asked, possible)
        first.append(stated.max())
    assert max(first) < 0.02


def test_where_facts_are_missing_they_get_high_probabilities(found):
    panel, stated, true = panel_of(DATASET), [], []
    for anchor in range(SIZE):
        asked, split_of = candidates(panel, anchor, OPEN, 0, ("train", "valid"))  # those of test are missing
        possible = np.flatnonzero(asked.possible)
        stated += found[0].probability(2 * OPEN, asked, possible).tolist()
        true += [entity in split_of for entity in possible.tolist()]
    stated, true = np.array(stated), np.array(true)
    assert stated[true].mean() > 0.7
    assert stated[~true].mean() < 0.03
    assert stated.sum() == pytest.approx(true.sum(), rel=0.2)


def test_one_question_gets_the_probabilities_of_all_judged_together(found):
    confidence, _ = found
    population = Population.sample(DATASET, ("train", "valid"), "test")
    panel = panel_of(DATASET)
    judgement = judge(panel, population, Hidden(("train", "valid"), "test"))
    together = confidence.of_judged(judgement)
    for q in range(0, len(population), 17):
        asked = tuple(int(column[q]) for column in population[:3])
        rows = judgement.question == q
        alone, _ = candidates(panel, *asked, ("train", "valid"))
        group = 2 * asked[1] + asked[2]
        np.testing.assert_allclose(confidence.probability(group, alone, judgement.entity[rows]), together[rows])


def test_no_number_without_enough_questions_or_facts(found, monkeypatch):
    confidence, judgement = found
    answered = confidence.parts[1]
    counts = [int(judgement.answered[judgement.group == group].sum()) for group in range(4)]
    assert answered.questions.tolist() == counts
    few = answered._replace(questions=np.array([LEAST_QUESTIONS - 1, LEAST_QUESTIONS, 99, 99]))
    thin = Confidence(confidence.weights, confidence.scales, confidence.usual, (None, few), {})
    panel = panel_of(DATASET)
    asked, _ = candidates(panel, 3, 0, 0, ("train",))
    assert np.isnan(thin.probability(0, asked, np.array([5, 6]))).all()
    assert not np.isnan(thin.probability(1, asked, np.array([5, 6]))).any()
    without = asked._replace(known=np.empty(0, dtype=np.int64))
    assert np.isnan(thin.probability(1, without, np.array([5, 6]))).all()
    monkeypatch.setattr(module, "LEAST_FACTS", 10**6)
    assert fitted()[0].parts == (None, None)


def test_places_far_behind_share_one_probability(found):
    part = found[0].parts[1]._replace(behind=1e-7)
    evidence = Evidence(np.array([PLACES + 1.0, 1.0]), np.tile(part.regression.high, (2, 1)))
    far, near = part.probability(np.array([0, 0]), evidence)
    assert far == 1e-7 < near


def run_at(folder):
    return SimpleNamespace(made_by=RUN.made_by, calibration_path=lambda name: folder / f"{name}.json")


def test_a_record_is_read_as_it_was_written(found, tmp_path):
    confidence, run = found[0], run_at(tmp_path)
    assert Confidence.load(run, "dsc", confidence.weights) is None
    confidence.save(run, "dsc")
    again = Confidence.load(run, "dsc", confidence.weights)
    assert again.digest == confidence.digest
    asked, _ = candidates(panel_of(DATASET), 3, OPEN, 1, ("train",))
    entities = np.flatnonzero(asked.possible)
    np.testing.assert_array_equal(
        again.probability(2 * OPEN + 1, asked, entities), confidence.probability(2 * OPEN + 1, asked, entities)
    )


def test_a_record_of_other_weights_or_models_is_not_used(found, tmp_path):
    confidence, run = found[0], run_at(tmp_path)
    confidence.save(run, "dsc")
    assert Confidence.load(run, "dsc", weights_of(DATASET, (1, 1))) is None
    run.made_by = lambda: {"models": {"first": "1", "second": "again"}}
    assert Confidence.load(run, "dsc", confidence.weights) is None
    run.made_by = lambda: {"models": {"first": "1", "second": "2", "third": "other"}}  # has no weight
    assert Confidence.load(run, "dsc", confidence.weights) is not None


@pytest.mark.parametrize(
    "damage", [{"usual": [[1, 2]]}, {"answered": {"steps": []}}, {"answered": 0.0}, {"scales": ["x", 1]}]
)
def test_a_damaged_record_is_named(found, tmp_path, damage):
    assert isinstance(module.CALIBRATION, RecordKind)
    confidence, run = found[0], run_at(tmp_path)
    confidence.save(run, "dsc")
    record = read_json(tmp_path / "dsc.json", "calibration")
    record.pop("checksum", None)
    write_json(tmp_path / "dsc.json", record | damage)
    with pytest.raises(InputError, match=r"dsc\.json is damaged .*Calibrate again with `relens calibrate RUN`"):
        Confidence.load(run, "dsc", confidence.weights)


@pytest.mark.parametrize(
    "steps",
    [
        {"bounds": [0.0, 1.0], "values": [0.1, 7.0]},
        {"bounds": [0.0, 1.0], "values": [-0.1, 0.5]},
        {"bounds": [1.0, 0.0], "values": [0.1, 0.5]},
    ],
)
def test_steps_that_are_no_probabilities_are_refused(found, tmp_path, steps):
    confidence, run = found[0], run_at(tmp_path)
    confidence.save(run, "dsc")
    record = read_json(tmp_path / "dsc.json", "calibration")
    kind = next(kind for kind in ("unanswered", "answered") if record[kind])
    write_json(tmp_path / "dsc.json", record | {kind: record[kind] | {"steps": steps}})
    with pytest.raises(InputError, match=r"dsc\.json is damaged .*expected ascending steps of probabilities"):
        Confidence.load(run, "dsc", confidence.weights)
