"""Verdicts on triples, and their evaluation against loops."""

import shutil

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens import classify
from relens.data.queries import Queries
from relens.errors import InputError
from relens.prediction import Ensemble
from relens.prediction.classification import Verdicts
from relens.prediction.thresholds import STATISTICS, Examples


@pytest.fixture(scope="module")
def ensemble(run):
    return Ensemble.open(run, "dsc-log")


def labels(ensemble, triples):
    entities, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    return [(entities[h], relations[r], entities[t]) for h, r, t in triples.tolist()]


def test_verdicts_are_counted_as_loops_count_them():
    rng = np.random.default_rng(0)
    found, true = rng.integers(0, 2, (2, 50)).astype(bool)
    counted = Verdicts.count(found, true)
    pairs = list(zip(found.tolist(), true.tolist(), strict=True))
    precision = pairs.count((True, True)) / sum(found for found, _ in pairs)
    recall = pairs.count((True, True)) / sum(true for _, true in pairs)
    assert counted.accuracy == sum(found == true for found, true in pairs) / 50
    assert counted.f1 == pytest.approx(2 * precision * recall / (precision + recall))
    assert counted.examples == 50
    nothing = Verdicts.count(np.zeros(3, dtype=bool), np.zeros(3, dtype=bool))
    assert (nothing.accuracy, nothing.f1) == (1.0, 0.0)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_evaluation_is_that_of_loops_over_verdicts(ensemble, split):
    found = ensemble.evaluate_classification(split, name="mine")
    filtered = ("train", "valid", "test")
    examples = Examples.of_split(ensemble.dataset, split, filtered=filtered, seed=0)
    rows = labels(ensemble, examples.triples)
    verdicts = ensemble.classify(rows)
    right = [one.true == true for one, true in zip(verdicts, examples.true.tolist(), strict=True)]
    assert found.overall.accuracy == sum(right) / len(right)
    relation = rows[0][1]
    mine = [ok for ok, row in zip(right, rows, strict=True) if row[1] == relation]
    assert found.by_relation[relation].accuracy == sum(mine) / len(mine)
    assert sum(part.examples for part in found.by_relation.values()) == found.overall.examples == len(rows)
    assert found.protocol == {"valid": "sampled hard negatives, seed 0", split: "sampled hard negatives, seed 0"}
    record = found.to_json()
    assert record["kind"] == "relens evaluation of classification"
    assert record["overall"]["accuracy"] == sum(right) / len(right)


def test_a_verdict_compares_the_value_with_the_threshold(ensemble):
    rows = labels(ensemble, ensemble.dataset.test[:9])
    found = ensemble.classify(rows)
    thresholds = ensemble.thresholds()
    values = STATISTICS[thresholds.statistic](ensemble.rank_answers(Queries.from_triples(ensemble.dataset.test[:9])))
    for one, row, value in zip(found, rows, values.tolist(), strict=True):
        number = ensemble.dataset.relations.id_of(row[1])
        assert (one.head, one.relation, one.tail) == row
        assert (one.value, one.threshold, one.true) == (value, thresholds.by_relation[number], value >= one.threshold)
        assert (one.own, one.known) == (bool(thresholds.own[number]), "test")
    assert found[0].to_json()["true"] == found[0].true


def test_given_negatives_are_the_protocol_of_a_data_set_that_has_them(town, tmp_path):
    folder = shutil.copytree(Ensemble.open(town, "score").dataset.folder, tmp_path / "town")
    ensemble = Ensemble.open(town, "score")
    wrong = [(f"person_{i}", "lives_in", f"city_{(i + 1) % 5}") for i in range(24)]
    for split, rows in (("valid", wrong[:12]), ("test", wrong[12:])):
        rows = [row for row in rows if ensemble.score([row])[0].known is None]
        (folder / f"{split}_negatives.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    object.__setattr__(ensemble.dataset, "folder", folder)
    found = ensemble.evaluate_classification()
    assert found.protocol == {"valid": "given negatives", "test": "given negatives"}
    assert found.overall.examples == len(ensemble.dataset.test) + len(ensemble.dataset.negatives["test"])
    assert found.own_thresholds == 1
    (one,) = ensemble.classify([("person_1", "works_at", "firm_5")])
    assert one.own is False


def test_the_function_is_the_method(run, ensemble):
    rows = labels(ensemble, ensemble.dataset.valid[:3])
    assert classify(run, rows, weights="dsc-log") == ensemble.classify(rows)


def test_without_validation_there_are_no_thresholds(town):
    ensemble = Ensemble.open(town, "score")
    object.__setattr__(ensemble.dataset, "valid", ensemble.dataset.valid[:0])
    with pytest.raises(InputError, match="town has no validation triples, and thresholds are fitted on them"):
        ensemble.classify([("person_1", "works_at", "firm_5")])
