"""``relens evaluate``: metrics of weights or of one model."""

import csv
import json
import shutil
from dataclasses import replace
from fractions import Fraction
from io import StringIO

import pytest

from relens.cli import evaluate as evaluate_module
from relens.ensemble.weights import EnsembleWeights
from relens.evaluation import Evaluation
from relens.files import read_json
from tests import simulated
from tests.cli.commands import fail, relens_process, succeed
from tests.random_packs import changed


@pytest.fixture
def searched(run_path):
    """A run with dsc weights on ranks."""
    succeed("search", run_path, "--input", "rank", "--regularise", "none", "--jobs", 1)
    return run_path


def dsc_ranks(run_path, split: str = "test") -> list[Fraction]:
    value = read_json(run_path / "weights" / "dsc.json", "record")
    return simulated.ranks_by_loop(split, simulated.weights_of(value))


def mean(values) -> pytest.approx:
    values = list(values)
    return pytest.approx(float(sum(values, Fraction(0)) / len(values)), abs=1e-12)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_all_numbers_are_those_of_loops(searched, split):
    found = succeed("evaluate", searched, "--split", split, "--json").json
    ranks = dsc_ranks(searched, split)
    assert found["overall"]["queries"] == 60
    assert found["overall"]["mrr"] == mean(1 / rank for rank in ranks)
    assert found["overall"]["mean_rank"] == mean(ranks)
    for k in (1, 3, 10):
        assert found["overall"][f"hits_at_{k}"] == mean(Fraction(rank <= k) for rank in ranks)
    rows = simulated.dense(split)
    for r in range(4):
        part = found["by_relation"][f"relation {r}"]
        assert part["mrr"] == mean(1 / rank for rank, row in zip(ranks, rows, strict=True) if row[0] == r)
        assert part["queries"] == 2 * (3, 6, 9, 12)[r]
        for d, direction in enumerate(("tail", "head")):
            part = found["by_group"][f"relation {r} [{direction}]"]
            assert part["mrr"] == mean(1 / rank for rank, row in zip(ranks, rows, strict=True) if row[:2] == (r, d))
    for d, direction in enumerate(("tail", "head")):
        part = found["by_direction"][direction]
        assert part["mrr"] == mean(1 / rank for rank, row in zip(ranks, rows, strict=True) if row[1] == d)
    low, high = found["interval"]
    assert low < found["overall"]["mrr"] < high
    assert found["provenance"]["split"] == split
    assert found["settings"]["method"] == "dsc"


def test_the_reference_is_the_best_model_on_validation(searched):
    best = max(simulated.SIMULATION.models, key=lambda model: simulated.model_mrr_by_loop("valid", model))
    found = succeed("evaluate", searched, "--json").json
    assert found["paired"]["reference"] == best
    single = simulated.model_mrr_by_loop("test", best)
    assert found["paired"]["difference"] == pytest.approx(found["overall"]["mrr"] - single, abs=1e-12)


def test_of_some_models_the_best_of_them_is_the_reference(run_path):
    succeed("search", run_path, "--method", "mean", "--models", "alpha,beta")
    found = succeed("evaluate", run_path, "--json").json
    assert found["paired"]["reference"] == "alpha"  # gamma is better and not among them
    by_loop = simulated.mrr_by_loop("test", lambda r, d: [1, 1, 0])
    assert found["overall"]["mrr"] == pytest.approx(by_loop, abs=1e-12)
    assert found["paired"]["difference"] == pytest.approx(by_loop - simulated.model_mrr_by_loop("test", "alpha"))


@pytest.mark.parametrize("model", simulated.SIMULATION.models)
def test_one_model_alone(run_path, model):
    found = succeed("evaluate", run_path, "--model", model, "--json").json
    assert found["name"] == model
    assert found["overall"]["mrr"] == pytest.approx(simulated.model_mrr_by_loop("test", model), abs=1e-12)
    if model == "gamma":  # the best on validation is not compared with itself
        assert found["paired"] is None
    else:
        assert found["paired"]["reference"] == "gamma"
    assert read_json(run_path / "evaluations" / f"{model}-test.json", "record") == found


def test_a_model_may_have_any_printable_name(tmp_path):
    valid, test = (changed(simulated.packed(s), models=("a b", "c/d", "é")) for s in ("valid", "test"))
    run_path = simulated.write_run(tmp_path / "r", valid, test)
    for model, file in (("a b", "a-b"), ("c/d", "c-d"), ("é", "model")):
        assert succeed("evaluate", run_path, "--model", model, "--json").json["name"] == model
        assert read_json(run_path / "evaluations" / f"{file}-test.json", "record")["name"] == model


def test_without_validation_ranks_there_is_no_reference(searched):
    shutil.rmtree(searched / "ranks" / "valid")
    assert succeed("evaluate", searched, "--json").json["paired"] is None
    assert succeed("evaluate", searched, "--model", "alpha", "--json").json["paired"] is None


def test_the_result_is_kept_and_can_be_read_again(searched):
    found = succeed("evaluate", searched, "--json", "--seed", 4).json
    kept = read_json(searched / "evaluations" / "dsc-test.json", "record")
    assert kept == found
    assert Evaluation.from_json(kept).to_json() == found
    assert found["seed"] == 4


def test_the_text_names_everything_that_a_number_needs(searched):
    outcome = succeed("evaluate", searched)
    ranks = dsc_ranks(searched)
    mrr = float(sum(1 / rank for rank in ranks) / len(ranks))
    lines = outcome.out.splitlines()
    assert lines[0] == "Evaluation of dsc"
    overall = next(line for line in lines if line.startswith(" overall"))
    assert overall.split()[1:3] == ["60", f"{mrr:.4f}"]
    shown = " ".join(outcome.out.split())
    for fact in ("data set: simulated", "split: test", "filter: as imported", "ties: mean", "candidates: all",
                 "grouping: relation-direction", "seed: 0", "95% interval", "bootstrap resamples by triple",
                 "overall MRR minus that of gamma: +", "paired sign-flip test by triple",
                 "settings: method dsc, input rank", "optimistic", "pessimistic"):  # fmt: skip
        assert fact in shown
    assert outcome.err == ""


def test_parts_come_as_tables_of_their_own(searched):
    outcome = succeed("evaluate", searched, "--by", "relation", "--by", "group", "--by", "direction")
    blocks = outcome.out.split("\n\n")
    titles = [block.splitlines()[0] for block in blocks]
    assert titles == ["Evaluation of dsc", *(f"Evaluation of dsc by {p}" for p in ("relation", "group", "direction"))]
    relations = [" ".join(line.split()[:3]) for line in blocks[1].splitlines() if line.startswith(" relation ")]
    assert relations[1:] == ["relation 3 24", "relation 2 18", "relation 1 12", "relation 0 6"]


def test_unknown_cardinalities_raise_an_error(searched):
    outcome = succeed("evaluate", searched, "--by", "cardinality")
    assert "relens: the cardinality classes are unknown: import or pack the ranks with --data" in outcome.err
    assert "by cardinality" not in outcome.out


def test_cardinalities_are_shown_where_they_are_known(tmp_path):
    valid, test = (changed(simulated.packed(s), cardinalities=("1-1", "", "1-N", "1-N")) for s in ("valid", "test"))
    run_path = simulated.write_run(tmp_path / "r", valid, test)
    outcome = succeed("evaluate", run_path, "--model", "alpha", "--by", "cardinality", "--format", "csv")
    second = outcome.out.split("\n\n")[1]
    rows = list(csv.DictReader(StringIO(second)))
    assert [(row["cardinality"], int(row["queries"])) for row in rows] == [("1-N", 42), ("1-1", 6)]


@pytest.mark.parametrize(
    ("form", "begins", "holds"),
    [
        ("text", "Evaluation of dsc\n", "────"),
        ("csv", "part,queries,MRR,Hit@1,Hit@3,Hit@10,MR,", "\noverall,60,0."),
        ("markdown", "**Evaluation of dsc**\n\n| part | queries |", "| :-- | --: |"),
        ("latex", "\\begin{table}\n\\centering\n", "\\begin{tabular}{lrrrrrrrr}"),
    ],
)
def test_every_form_on_stdout_and_in_a_file(searched, tmp_path, form, begins, holds):
    printed = succeed("evaluate", searched, "--format", form, "--by", "relation")
    assert printed.out.startswith(begins)
    assert holds in printed.out
    assert printed.out.count("relation 3") == 1
    assert printed.out.endswith("\n")
    assert not printed.out.endswith("\n\n")
    file = tmp_path / "new" / f"out.{form}"
    written = succeed("evaluate", searched, "--format", form, "--by", "relation", "-o", file)
    assert written.out == ""
    assert written.err == f"relens: wrote {file}\n"
    assert file.read_text() == printed.out


def test_json_goes_to_a_file_too(searched, tmp_path):
    printed = succeed("evaluate", searched, "--json")
    assert printed.err == ""
    written = succeed("evaluate", searched, "--json", "-o", tmp_path / "e.json")
    assert written.out == ""
    assert read_json(tmp_path / "e.json", "record") == printed.json


def test_csv_keeps_exact_values(searched):
    row = next(csv.DictReader(StringIO(succeed("evaluate", searched, "--format", "csv").out)))
    assert float(row["MRR"]) == succeed("evaluate", searched, "--json").json["overall"]["mrr"]
    assert (row["split"], row["ties"], row["data set"]) == ("test", "mean", "simulated")


def test_weights_must_exist_and_be_named_if_there_are_several(run_path):
    fail(2, f"{run_path} has no weights yet: search them with `relens search {run_path}`", "evaluate", run_path)
    fail(2, "has no weights yet", "evaluate", run_path, "--weights", "dsc")
    for method in ("mean", "greedy"):
        succeed("search", run_path, "--method", method)
    fail(2, "has several weights: choose one with --weights {greedy,mean}", "evaluate", run_path)
    fail(2, "has no weights 'maen'; did you mean 'mean'?", "evaluate", run_path, "--weights", "maen")
    fail(2, "'../mean' cannot name weights", "evaluate", run_path, "--weights", "../mean")
    fail(2, "'' cannot name weights", "evaluate", run_path, "--weights", "")
    assert succeed("evaluate", run_path, "--weights", "greedy", "--json").json["name"] == "greedy"
    succeed("search", run_path)
    assert succeed("evaluate", run_path, "--json").json["name"] == "dsc"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "gama"], "unknown model 'gama'; did you mean 'gamma'?"),
        (["--model", "alpha", "--weights", "dsc"], "--model and --weights exclude each other"),
        (["--split", "train"], "Invalid value for '--split': 'train' is not one of 'valid', 'test'"),
        (["--by", "entity"], "Invalid value for '--by'"),
        (["--format", "html"], "Invalid value for '--format'"),
    ],
)
def test_wrong_use_is_explained(run_path, options, message):
    fail(2, message, "evaluate", run_path, *options)
    assert not (run_path / "evaluations").exists()


def test_errors_name_missing_parts(searched, tmp_path):
    fail(2, f"{tmp_path}/none is not a run: it does not exist", "evaluate", tmp_path / "none")
    shutil.rmtree(searched / "ranks" / "test")
    fail(2, "has no ranks of test (present: valid)", "evaluate", searched)
    fail(2, "has no ranks of test", "evaluate", searched, "--model", "alpha")
    assert succeed("evaluate", searched, "--split", "valid", "--json").json["provenance"]["split"] == "valid"


def test_weights_of_another_data_set_are_refused(searched, tmp_path):
    sets = [replace(simulated.SIMULATION, seed=6).packed(split) for split in ("valid", "test")]
    other = simulated.write_run(tmp_path / "other", *sets)
    shutil.copytree(searched / "weights", other / "weights")
    message = "the weights were fitted on 'simulated' (seed 36), the ranks are of 'simulated' (seed 6). Use"
    fail(2, message, "evaluate", other)


def test_weights_of_a_model_the_run_lacks_are_refused(searched, tmp_path):
    sets = [simulated.packed(split).select_models(["alpha", "beta"]) for split in ("valid", "test")]
    other = simulated.write_run(tmp_path / "other", *sets)
    shutil.copytree(searched / "weights", other / "weights")
    fail(2, "the weights are for models ['alpha', 'beta', 'gamma'], the ranks have ['alpha', 'beta']: 'gamma' is in",
         "evaluate", other)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "relens run"}, "is not a 'relens weights' record: its kind is 'relens run'"),
        ({"format": 2}, "has format 2, this relens reads format 1"),
        ({"models": ["alpha", "beta", "beta"]}, "a model is named twice among alpha, beta, beta"),
        ({"fallback": {"alpha": 1}}, "fallback: found weights of ['alpha'], expected those of ['alpha', 'beta'"),
        ({"fallback": {"alpha": -1, "beta": 1, "gamma": 1}}, "fallback: found the negative weight -1"),
        ({"fallback": {"alpha": 0, "beta": 0, "gamma": 0}}, "fallback: all weights of a vector are 0"),
        ({"fallback": {"alpha": 0.5, "beta": 0, "gamma": 0}}, "fallback: found [0.5, 0, 0], expected whole numbers"),
        ({"gap_scales": [1.0]}, "is damaged"),
        ({"settings": None}, "is damaged"),
        ({"input": "ranks"}, "found the input 'ranks', expected one of rank, log, sqrt, rrf, score"),
        ({"groups": {"relation 0": {"queries": 1, "weights": {}}}}, "unknown group 'relation 0'; did you mean"),
    ],
)
def test_damaged_weights_are_refused_by_file_and_place(searched, change, message):
    path = searched / "weights" / "dsc.json"
    path.write_text(json.dumps({**read_json(path, "record"), **change}))
    outcome = fail(2, message, "evaluate", searched)
    assert str(path) in outcome.err
    assert not (searched / "evaluations").exists()


def test_weights_cut_short_are_refused(searched):
    path = searched / "weights" / "dsc.json"
    path.write_text(path.read_text()[:-30])
    fail(2, f"weights {path} is not readable JSON", "evaluate", searched)


def test_an_interrupt_leaves_the_old_evaluation(searched, monkeypatch):
    succeed("evaluate", searched)
    before = (searched / "evaluations" / "dsc-test.json").read_bytes()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(evaluate_module, "evaluate_ensemble", interrupted)
        fail(130, "interrupted; nothing half-written", "evaluate", searched, "--seed", 1)
    with monkeypatch.context() as patch:
        patch.setattr("relens.files.os.fsync", interrupted)
        fail(130, "interrupted", "evaluate", searched, "--seed", 1)
    assert (searched / "evaluations" / "dsc-test.json").read_bytes() == before
    assert [path.name for path in (searched / "evaluations").iterdir()] == ["dsc-test.json"]


def test_a_place_that_cannot_be_written_is_a_failure(searched, tmp_path):
    (tmp_path / "file").write_text("")
    fail(1, f"cannot write {tmp_path}/file/x.txt", "evaluate", searched, "-o", tmp_path / "file" / "x.txt")
    fail(1, "Is a directory", "evaluate", searched, "-o", tmp_path)


def test_a_real_process_prints_the_same(searched):
    done = relens_process("evaluate", searched, "--json")
    assert done.code == 0, done.err
    assert done.json == succeed("evaluate", searched, "--json").json
    none = relens_process("evaluate", searched, "--weights", "none")
    assert (none.code, none.out) == (2, "")


def test_score_weights_need_the_same_scales(run_path):
    succeed("search", run_path, "--method", "simple", "--input", "score", "--jobs", 1)
    weights = EnsembleWeights.load(run_path / "weights" / "simple.json")
    replace(weights, gap_scales=2 * weights.gap_scales).save(run_path / "weights" / "simple.json")
    fail(2, "score gaps of weights and ranks have different scales", "evaluate", run_path)
