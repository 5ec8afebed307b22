"""``relens compare``: all methods side by side."""

import csv
import json
import shutil
import sys
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest

from relens.cli import compare as compare_module
from relens.errors import install_hint
from relens.packs.store import save_pack
from tests import simulated
from tests.cli.commands import fail, relens_process, succeed
from tests.random_packs import changed

MODELS = list(simulated.SIMULATION.models)
SPECS = ("mean", "greedy", "dsc:input=rank,regularise=none")


def test_the_numbers_are_those_of_loops(tiny_run):
    found = succeed("compare", tiny_run, *SPECS, "--jobs", 1, "--json").json
    mrrs = {evaluation["name"]: evaluation["overall"]["mrr"] for evaluation in found["evaluations"]}
    assert list(mrrs) == [*MODELS, *SPECS]
    for model in MODELS:
        assert mrrs[model] == pytest.approx(simulated.model_mrr_by_loop("test", model), abs=1e-12)
    assert mrrs["mean"] == pytest.approx(simulated.mrr_by_loop("test", lambda r, d: [1, 1, 1]), abs=1e-12)
    assert found["best_single"] == "gamma"
    assert found["settings"]["greedy"]["method"] == "greedy"
    assert found["notes"] == []
    for evaluation in found["evaluations"]:
        reference = evaluation["paired"] and evaluation["paired"]["reference"]
        assert reference == (None if evaluation["name"] == "gamma" else "gamma")


def test_the_spread_of_the_models_is_that_of_loops(tiny_run):
    found = succeed("compare", tiny_run, "mean", "--json").json["spread"]
    rows = simulated.dense("test")
    stds, sizes = [], []
    for r in range(4):
        at = [q for q, row in enumerate(rows) if row[0] == r]
        mrr = []
        for i, model in enumerate(MODELS):
            one_hot = [int(i == j) for j in range(3)]
            ranks = simulated.ranks_by_loop("test", lambda r, d, w=one_hot: w)
            mrr.append(float(sum(1 / ranks[q] for q in at) / len(at)))
            assert found["relations"][f"relation {r}"]["mrr"][model] == pytest.approx(mrr[-1], abs=1e-12)
        stds.append((sum((value - sum(mrr) / 3) ** 2 for value in mrr) / 3) ** 0.5)
        sizes.append(len(at))
    assert found["std_by_relations"] == pytest.approx(sum(stds) / 4, abs=1e-12)
    weighted = sum(std * size for std, size in zip(stds, sizes, strict=True)) / sum(sizes)
    assert found["std_by_queries"] == pytest.approx(weighted, abs=1e-12)
    assert "Relation-wise MRR of alpha, beta, gamma" in succeed("compare", tiny_run, "mean", "--spread").out
    assert "Relation-wise" not in succeed("compare", tiny_run, "mean").out


def test_the_default_compares_the_paper_and_ours_in_one_table(tiny_run):
    outcome = succeed("compare", tiny_run, columns=160)
    rows = [line.split()[0] for line in outcome.out.splitlines() if " [0." in line]
    assert rows == [*MODELS, "mean", "mrr-mean", "stacking", "greedy", "simple:input=rank",
                    "dsc:input=rank,regularise=none", "simple", "dsc"]  # fmt: skip
    shown = " ".join(outcome.out.split())
    for fact in ("Comparison on simulated (test)", "Relative ↑ of dsc over gamma", "split: test", "ties: mean",
                 "filter: as imported", "grouping: relation-direction", "candidates: all", "seed: 0",
                 "Δ MRR: difference to gamma", "* best of its column"):  # fmt: skip
        assert fact in shown
    assert "relens: dsc: cross-validation chose the input " in outcome.err
    assert ", κ " in outcome.err


def test_nothing_is_written_into_the_run(run_path):
    before = sorted(path.relative_to(run_path) for path in run_path.rglob("*"))
    succeed("compare", run_path, "mean")
    assert sorted(path.relative_to(run_path) for path in run_path.rglob("*")) == before


def test_a_subset_of_the_models_is_a_comparison_of_its_own(tiny_run):
    found = succeed("compare", tiny_run, "mean", "--models", "beta,alpha", "--json").json
    assert [evaluation["name"] for evaluation in found["evaluations"]] == ["beta", "alpha", "mean"]
    assert found["best_single"] == "alpha"
    by_loop = simulated.mrr_by_loop("test", lambda r, d: [1, 1, 0])
    assert found["evaluations"][-1]["overall"]["mrr"] == pytest.approx(by_loop, abs=1e-12)


def test_options_are_what_the_specs_leave_open(tiny_run):
    options = ("--input", "sqrt", "--regularise", "none", "--seed", 3, "--group", "relation", "--jobs", 1)
    found = succeed("compare", tiny_run, "simple", "dsc:input=rank", *options, "--json").json
    assert found["settings"]["simple"]["input"] == "sqrt"
    assert found["settings"]["dsc:input=rank"]["input"] == "rank"
    assert {e["grouping"] for e in found["evaluations"]} == {"relation"}
    assert {e["seed"] for e in found["evaluations"]} == {3}


@pytest.mark.parametrize(
    ("form", "begins", "holds"),
    [
        ("text", "Comparison on simulated (test)\n", " mean "),
        ("csv", "method,MRR,95% interval low,95% interval high,Hit@1,", "\nmean,0."),
        ("markdown", "**Comparison on simulated (test)**\n\n| method | MRR |", "\n| mean | "),
        ("latex", "\\begin{table}\n\\centering\n", "\\begin{tabular}{lrrrrrrrr}"),
    ],
)
def test_every_form_on_stdout_and_in_a_file(tiny_run, tmp_path, form, begins, holds):
    printed = succeed("compare", tiny_run, "mean", "--format", form, "--spread")
    assert printed.out.startswith(begins)
    assert holds in printed.out
    assert len(printed.out.split("\n\n")) >= 2
    assert not printed.out.endswith("\n\n")
    written = succeed("compare", tiny_run, "mean", "--format", form, "--spread", "-o", tmp_path / "out")
    assert (written.out, written.err) == ("", f"relens: wrote {tmp_path}/out\n")
    assert (tmp_path / "out").read_text() == printed.out


def test_csv_and_json_hold_the_same_exact_values(tiny_run):
    rows = list(csv.DictReader(StringIO(succeed("compare", tiny_run, "mean", "--format", "csv").out)))
    found = succeed("compare", tiny_run, "mean", "--json").json["evaluations"]
    assert [float(row["MRR"]) for row in rows[:4]] == [evaluation["overall"]["mrr"] for evaluation in found]
    assert float(rows[0]["95% interval low"]) == found[0]["interval"][0]
    assert float(rows[0]["p"]) == found[0]["paired"]["p_value"]


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_no_number_is_cut_whatever_the_width(tiny_run, columns):
    outcome = succeed("compare", tiny_run, *SPECS, columns=columns)
    for value in succeed("compare", tiny_run, *SPECS, "--json").json["evaluations"]:
        low, high = value["interval"]
        assert f"[{low:.4f}, {high:.4f}]" in outcome.out
    title, *_ = outcome.out.splitlines()
    assert len(title) <= columns


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["dcs"], "unknown method 'dcs'; did you mean 'dsc'?"),
        (["dsc:inptu=rank"], "found 'inptu=rank', expected key=value; did you mean 'input'?"),
        (["dsc:trials=x"], "trials is 'x', expected a whole number"),
        (["basic"], "Choose the searcher tpe or random, or the method dsc."),
        (["mean", "--models", "alpha,gama"], "unknown model 'gama'; did you mean 'gamma'?"),
        (["mean", "--models", "beta,beta"], "model 'beta' is named twice"),
        (["dsc:group=none.tsv"], "unknown grouping 'none.tsv'"),
        (["mean", "--method", "dsc"], "No such option"),
    ],
)
def test_wrong_use_is_explained(tiny_run, specs, message):
    fail(2, message, "compare", tiny_run, *specs)


def test_missing_splits_and_runs_are_named(run_path, tmp_path):
    fail(2, "is not a run", "compare", tmp_path)
    shutil.rmtree(run_path / "ranks" / "test")
    fail(2, "has no ranks of test (present: valid)", "compare", run_path)
    shutil.rmtree(run_path / "ranks" / "valid")
    fail(2, "has no ranks of valid (present: none)", "compare", run_path)


def test_splits_of_two_data_sets_are_refused(run_path):
    test = simulated.packed("test")
    other = changed(test, provenance=replace(test.provenance, fingerprint="seed 6"))
    save_pack(other, run_path / "ranks" / "test")
    fail(2, "the data sets of valid and test differ (seed 36 and seed 6)", "compare", run_path, "mean")


def test_missing_extras_are_noted_and_the_rest_is_compared(tiny_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    outcome = succeed("compare", tiny_run, "stacking", "mean", "--json")
    line = f"stacking left out: method 'stacking' needs an optional dependency: {install_hint('stacking')}"
    assert outcome.json["notes"] == [line]
    assert outcome.err == f"relens: {line}\n"
    assert [evaluation["name"] for evaluation in outcome.json["evaluations"]] == [*MODELS, "mean"]


def test_notes_of_a_fit_name_the_method_once(tmp_path):
    valid, test = (simulated.packed(split).select_queries(np.arange(2)) for split in ("valid", "test"))
    one = [packed.select_models(["alpha"]) for packed in (valid, test)]
    none = [changed(packed, contested=packed.contested[:, :0], gaps=packed.gaps[:, :0],
                    offsets=np.zeros_like(packed.offsets)) for packed in one]  # fmt: skip
    run_path = simulated.write_run(tmp_path / "r", *none)
    outcome = succeed("compare", run_path, "stacking", "dsc:input=rank")
    assert "relens: stacking: no contested candidate to learn from, so all weights are equal\n" in outcome.err
    assert "relens: dsc:input=rank: 6 of 8 groups have no validation queries: global weights\n" in outcome.err


def test_an_interrupt_writes_no_file(tiny_run, tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_module, "compare_methods", interrupted)
    fail(130, "interrupted; nothing half-written was left behind", "compare", tiny_run, "-o", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_real_process_prints_the_same(tiny_run):
    done = relens_process("compare", tiny_run, "mean", "best-single", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == succeed("compare", tiny_run, "mean", "best-single", "--json").json
    assert done.err == ""
