"""Thresholds and scales that a run keeps: used at once, equal to those fitted anew, and never with other weights."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.errors import InputError
from relens.prediction import Ensemble
from relens.prediction.fitted import keep_scale, keep_thresholds, kept_scale, kept_thresholds, lacking
from relens.progress import Silent
from relens.runs import Run
from relens.staleness import stale_calibrations, stale_results

NAME = "dsc-log"


class Notes(Silent):
    """Keeps what is noted."""

    def __init__(self):
        self.found = []

    def note(self, message):
        self.found.append(message)


@pytest.fixture(scope="module")
def fitted(run, tmp_path_factory):
    """A run that keeps both for its weights; tests only read it."""
    copy = Run.open(shutil.copytree(run.path, tmp_path_factory.mktemp("fitted") / "run"))
    ensemble = Ensemble.open(copy, NAME)
    keep_thresholds(copy, NAME, ensemble.weights, ensemble.thresholds(), 0)
    keep_scale(copy, NAME, ensemble.weights, ensemble.choose_relation_scale())
    return copy


@pytest.fixture
def changing(fitted, tmp_path):
    return Run.open(shutil.copytree(fitted.path, tmp_path / "run"))


def asked(ensemble):
    entities, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    return [(entities[h], relations[r], entities[t]) for h, r, t in ensemble.dataset.test[:6].tolist()]


def test_what_is_kept_is_used_at_once_and_answers_as_before(run, fitted, monkeypatch):
    plain, kept, notes = Ensemble.open(run, NAME), Ensemble.open(fitted, NAME), Notes()
    triples = asked(plain)
    verdicts, pair = plain.classify(triples, progress=notes), {"head": triples[0][0], "tail": triples[0][2]}
    relations = plain.predict_relations(**pair, progress=notes)
    assert [note.partition(";")[2] for note in notes.found] == [
        f" `relens calibrate {run.path} --weights {NAME}` does it once, and the run keeps it"
    ] * 2
    monkeypatch.setattr("relens.prediction.ensemble.fit", None)
    monkeypatch.setattr("relens.prediction.relation_scale.RelationRanker.choose_scale", None)
    silent = Notes()
    assert kept.classify(triples, progress=silent) == verdicts
    assert kept.predict_relations(**pair, progress=silent) == relations
    assert silent.found == []
    assert kept.evaluate_classification() == plain.evaluate_classification()
    assert kept.choose_relation_scale().tried == plain.choose_relation_scale().tried
    assert (kept.choose_relation_scale().others == plain.choose_relation_scale().others).all()
    assert lacking(fitted, NAME, kept.weights, kept.dataset) == []
    assert lacking(run, NAME, plain.weights, plain.dataset) == ["thresholds of verdicts", "scale of relations"]


def test_the_files_are_the_same_again(changing):
    paths = changing.thresholds_path(NAME), *sorted(changing.relation_scale_path(NAME).iterdir())
    before = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    ensemble = Ensemble.open(changing, NAME)
    keep_thresholds(changing, NAME, ensemble.weights, ensemble.thresholds(), 0)
    shutil.rmtree(changing.relation_scale_path(NAME))
    keep_scale(changing, NAME, ensemble.weights, ensemble.choose_relation_scale())
    assert [path.read_bytes() for path in paths] == before


def test_those_of_other_weights_are_not_used_and_are_named(changing):
    weights = changing.weights(NAME)
    dataset = Ensemble.open(changing, NAME).dataset
    assert stale_calibrations(changing) == []
    other = replace(weights, table=weights.table[:, ::-1].copy())
    assert kept_thresholds(changing, NAME, other, dataset, 0) is None
    assert kept_scale(changing, NAME, other) is None
    changing.keep_weights(NAME, other)
    assert stale_calibrations(changing) == [NAME]
    assert f"relens calibrate {changing.path} --weights {NAME}" in stale_results(changing)[-1]
    notes = Notes()
    Ensemble.open(changing, NAME).thresholds(progress=notes)
    assert notes.found[0].startswith("fitting the thresholds of verdicts on validation; `relens calibrate ")


def test_those_of_another_seed_and_other_negatives_are_not_used(changing, tmp_path):
    ensemble = Ensemble.open(changing, NAME)
    found = [kept_thresholds(changing, NAME, ensemble.weights, ensemble.dataset, seed) for seed in (0, 1)]
    assert found[0] is not None
    assert found[1] is None
    dataset = replace(ensemble.dataset, folder=tmp_path)
    (tmp_path / "valid_negatives.txt").write_text("site_00_00\tnorth_neighbour\tsite_09_09\n")
    assert kept_thresholds(changing, NAME, ensemble.weights, dataset, 0) is None
    assert "--seed 3`" in _noted(ensemble, 3)


def _noted(ensemble, seed):
    notes = Notes()
    ensemble.thresholds(seed, notes)
    return notes.found[0]


def test_given_facts_and_restricted_candidates_have_their_own(fitted):
    ensemble = Ensemble.open(fitted, NAME, candidates="observed")
    kept = Ensemble.open(fitted, NAME).thresholds()
    notes = Notes()
    among = ensemble.thresholds(progress=notes)
    assert notes.found == ["fitting the thresholds of verdicts on validation"]
    assert not np.array_equal(among.by_relation, kept.by_relation)
    assert ensemble.among(None).thresholds().by_relation.tolist() == kept.by_relation.tolist()
    assert ensemble.among("observed").thresholds() is among, "fitted once for all ensembles of the same models"


@pytest.mark.parametrize("damage", ["thresholds", "scale", "others", "missing"])
def test_damaged_files_are_named_with_the_remedy(changing, damage):
    ensemble, folder = Ensemble.open(changing, NAME), changing.relation_scale_path(NAME)
    path = {"thresholds": changing.thresholds_path(NAME), "scale": folder / "scale.json"}.get(damage)
    path = path or folder / "others.npy"
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "others":
        content[-3] ^= 1
        path.write_bytes(content)
    else:
        path.write_bytes(content.replace(b"0.", b"1.", 1))
    with pytest.raises(InputError) as error:
        (ensemble.thresholds if damage == "thresholds" else ensemble.choose_relation_scale)()
    assert str(path) in str(error.value)
    assert "with `relens calibrate RUN`" in str(error.value)
