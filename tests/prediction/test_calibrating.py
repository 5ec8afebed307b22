"""Calibrating a trained run."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import relens
from relens.data.queries import query_key
from relens.ensemble.search import search
from relens.errors import RanksError
from relens.packs.store import save_pack
from relens.prediction import calibrating
from relens.prediction.ensemble import Ensemble
from relens.prediction.population import Population, SampleSize
from relens.prediction.reliability import POPULATIONS, measure_reliability
from relens.runs import Run
from tests.cli.commands import relens as relens_command
from tests.cli.commands import succeed
from tests.random_packs import changed

SMALL = SampleSize(300, 60)
"""Few questions: tests need no precision."""


@pytest.fixture(scope="module", autouse=True)
def few_questions():
    with pytest.MonkeyPatch.context() as patched:
        for function in (Population.sample.__func__, calibrating.calibrate, measure_reliability):
            values = {**(function.__kwdefaults__ or {})}
            if "size" in values:
                patched.setattr(function, "__kwdefaults__", values | {"size": SMALL})
            else:
                patched.setattr(function, "__defaults__", (*function.__defaults__[:-1], SMALL))
        yield


@pytest.fixture(scope="module")
def calibrated(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("calibrated") / "run"
    shutil.copytree(run.path, path)
    relens.calibrate(path, weights="dsc-score")
    return Run.open(path)


def test_predictions_have_probabilities_after_calibration(run, calibrated):
    asked = {"head": "officer_2_03", "relation": "outranks", "top": 30}
    before = Ensemble.open(run, "dsc-score").predict(**asked)
    after = Ensemble.open(calibrated, "dsc-score").predict(**asked)
    assert {answer.confidence for answer in before} == {None}
    assert [answer.rank for answer in before] == [answer.rank for answer in after]
    new = [answer.confidence for answer in after if answer.known is None]
    assert all(0 <= confidence < 1 for confidence in new)
    assert max(new) < 0.5  # the graph is complete
    assert {answer.confidence for answer in after if answer.known} == {None}
    other = Ensemble.open(calibrated, "dsc-rank").predict(**asked)
    assert {answer.confidence for answer in other} == {None}


def test_calibration_is_the_same_again_and_does_not_read_test(calibrated, tmp_path, monkeypatch):
    first = calibrated.calibration_path("dsc-score").read_bytes()
    shutil.copytree(calibrated.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "ranks" / "test")
    relens.calibrate(tmp_path / "run", weights="dsc-score")
    assert Run.open(tmp_path / "run").calibration_path("dsc-score").read_bytes() == first


def test_each_fold_has_weights_fitted_without_its_questions(run, monkeypatch):
    ensemble, valid = Ensemble.open(run, "dsc-score"), run.ranks("valid")
    sample = Population.sample(ensemble.dataset, ("train",), "valid")
    fold = np.arange(len(sample)) % 5
    seen = []

    def recorded(packed, **arguments):
        seen.append({tuple(row) for row in packed.queries.columns()[:3].T.tolist()})
        assert arguments["input"] == "score"
        return search(packed, **arguments)

    monkeypatch.setattr(calibrating, "search", recorded)
    sets = calibrating._refitted(ensemble.weights, valid, sample, fold)
    assert len(sets) == len(seen) == 5
    asked = list(zip(*(column.tolist() for column in sample[:3]), strict=True))
    answered = {tuple(row) for row in valid.queries.columns()[:3].T.tolist()}
    for number, queries in enumerate(seen):
        judged = {key for key, of in zip(asked, fold.tolist(), strict=True) if of == number}
        assert not judged & queries
        assert queries < answered
    assert any((each.table != ensemble.weights.table).any() for each in sets)


def test_weights_of_unknown_origin_are_used_as_they_are(run):
    ensemble, valid = Ensemble.open(run, "dsc-score"), run.ranks("valid")
    sample = Population.sample(ensemble.dataset, ("train",), "valid")
    foreign = replace(ensemble.weights, settings={"method": "paper"})
    fold = np.arange(len(sample)) % 5
    assert all(each is foreign for each in calibrating._refitted(foreign, valid, sample, fold))


def test_the_key_of_a_question_is_that_of_a_query(run):
    queries = run.ranks("valid").queries
    keys = query_key(queries.anchor.astype(np.int64), queries.relation, queries.direction, 9)
    assert len(set(keys.tolist())) == len({tuple(row) for row in queries.columns()[:3].T.tolist()})


def test_the_command_says_what_it_found(calibrated, tmp_path):
    shutil.copytree(calibrated.path, tmp_path / "run")
    shown = succeed("calibrate", tmp_path / "run", "--weights", "dsc-score")
    assert "questions, " in shown.out
    assert "enough evidence on answered questions of" in shown.out
    found = succeed("calibrate", tmp_path / "run", "--weights", "dsc-score", "--json").json
    assert found["facts"] > 0
    assert found["groups"]["answered"] > 0
    asked = "--head", "officer_2_03", "--relation", "outranks"
    assert "if as many are missing as validation has" in succeed(
        "predict", tmp_path / "run", *asked, "--weights", "dsc-score"
    ).out.replace("\n", " ")
    assert "no confidence: `relens calibrate" in succeed(
        "predict", tmp_path / "run", *asked, "--weights", "dsc-log"
    ).out.replace("\n", " ")


@pytest.mark.parametrize("damage", [slice(0, 20), slice(-20, None)], ids=["unreadable", "checksum"])
def test_a_damaged_calibration_is_replaced(calibrated, tmp_path, damage):
    """The error about it says so."""
    run = Run.open(shutil.copytree(calibrated.path, tmp_path / "run"))
    path = run.calibration_path("dsc-score")
    path.unlink()
    succeed("calibrate", run.path, "--weights", "dsc-score")
    whole = bytearray(path.read_bytes())
    damaged = whole.copy()
    damaged[damage] = bytes(byte ^ 1 for byte in damaged[damage])
    path.write_bytes(damaged)
    asked = ("predict", run.path, "--weights", "dsc-score", "--head", "x", "--relation", "y")
    assert "Calibrate again with `relens calibrate RUN`" in " ".join(relens_command(*asked).err.split())
    succeed("calibrate", run.path, "--weights", "dsc-score")
    assert path.read_bytes() == whole


def test_sampled_candidates_get_no_probabilities(run, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    copy = Run.open(tmp_path / "run")
    valid = copy.ranks("valid")
    sampled = changed(valid, provenance=replace(valid.provenance, candidates="sampled"))
    with pytest.raises(RanksError, match=r"was ranked among other candidates \(sampled\), and probabilities are"):
        calibrating.valid_ranks(replace_ranks(copy, sampled), copy.weights("dsc-score"))
    plain = valid.without_gaps()
    with pytest.raises(RanksError, match="was ranked without scores, and probabilities are calibrated on"):
        calibrating.valid_ranks(replace_ranks(copy, plain), copy.weights("dsc-rank"))


def replace_ranks(run, packed):
    shutil.rmtree(run.ranks_path("valid"))
    save_pack(packed, run.ranks_path("valid"))
    return run


def test_a_run_without_models_says_what_it_lacks(tmp_path):
    from tests import simulated

    path = simulated.write_run(tmp_path / "run")
    succeed("search", path)
    assert "holds ranks only, and predictions need the models" in relens_command("calibrate", path).err


def test_reliability_is_kept_for_its_calibration(calibrated, monkeypatch):
    found = measure_reliability(calibrated, "dsc-score")
    assert list(found) == list(POPULATIONS)
    assert sum(each.weight for each in found["all"].bins) > sum(each.weight for each in found["first"].bins)
    assert all(each.low >= 0.1 for each in found["likely"].bins)
    monkeypatch.setattr("relens.prediction.reliability._measured", None)  # not measured again
    assert measure_reliability(calibrated, "dsc-score") == found
    assert measure_reliability(calibrated, "dsc-rank") is None


def test_places_leave_out_the_anchor(calibrated):
    ensemble = Ensemble.open(calibrated, "dsc-score")
    for head, relation in (("officer_2_03", "outranks"), ("site_04_17", "north_neighbour"), ("kind_10", "kind_of")):
        found = ensemble.predict(head=head, relation=relation, top=400)
        new = [answer for answer in found if answer.known is None]
        for answer in new:
            shift = answer.rank - answer.place
            assert shift == (0 if answer.rank < found.anchor_rank else 1 if answer.rank > found.anchor_rank else 0.5)
        assert [answer.place for answer in new[:3]] == sorted(answer.place for answer in new[:3])
        assert {answer.place for answer in found if answer.known} <= {None}
