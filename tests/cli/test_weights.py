"""``relens weights``: look at weights, and exchange them with other tools."""

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from relens.ensemble.weights import EnsembleWeights
from relens.files import read_json
from tests import simulated
from tests.cli.commands import Outcome, fail, relens_process, succeed

MODELS = list(simulated.SIMULATION.models)


@pytest.fixture
def searched(run_path):
    """A run with dsc weights on ranks."""
    succeed("search", run_path, "--input", "rank", "--regularise", "none", "--jobs", 1)
    return run_path


def kept(run_path: Path, name: str = "dsc") -> EnsembleWeights:
    return EnsembleWeights.load(run_path / "weights" / f"{name}.json")


def table_rows(outcome: Outcome) -> dict[str, list[str]]:
    rows = list(csv.reader(StringIO(outcome.out)))
    return {row[0]: row[1:] for row in rows}


def test_show_lists_groups_by_size_with_weights_that_sum_to_one(searched):
    outcome = succeed("weights", "show", searched)
    lines = [line for line in outcome.out.splitlines() if line.startswith(" relation ")]
    assert [line.split()[1] for line in lines] == ["3", "3", "2", "2", "1", "1", "0", "0"]
    table = dict(zip(kept(searched).grouping.labels, kept(searched).normalised(), strict=True))
    for line in lines:
        label, rest = line.strip()[: len("relation 0 [tail]")], line.split()[3:]
        assert rest[0] == str((3, 6, 9, 12)[int(line.split()[1])])
        assert rest[1:] == [f"{weight:.3f}" for weight in table[label]]
    shown = " ".join(outcome.out.split())
    for fact in ("Weights dsc", "all other groups –", "data set: simulated", "fitted on: valid", "input: rank",
                 "grouping: relation-direction", "method: dsc", "searcher: sweep", "kappa: 0.0"):  # fmt: skip
        assert fact in shown


def test_show_of_one_vector_speaks_of_all_groups(run_path):
    succeed("search", run_path, "--method", "mean")
    rows = table_rows(succeed("weights", "show", run_path, "--format", "csv"))
    assert list(rows) == ["group", "all groups"]
    assert [float(weight) for weight in rows["all groups"][1:4]] == [1 / 3] * 3


def test_show_can_be_narrowed_to_a_relation(searched):
    rows = table_rows(succeed("weights", "show", searched, "--relation", "relation 2", "--format", "csv"))
    assert list(rows) == ["group", "relation 2 [tail]", "relation 2 [head]", "all other groups"]
    value = succeed("weights", "show", searched, "--relation", "relation 2", "--json").json
    assert list(value["groups"]) == ["relation 2 [tail]", "relation 2 [head]"]
    fail(2, "no group of the weights 'dsc' has 'relatio 2' in its label; did you mean 'relation 2'",
         "weights", "show", searched, "--relation", "relatio 2")  # fmt: skip


def test_show_as_json_is_the_whole_file(searched):
    outcome = succeed("weights", "show", searched, "--json")
    assert outcome.json == read_json(searched / "weights" / "dsc.json", "record")
    assert outcome.err == ""


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("text", "Weights dsc\n"),
        ("csv", "group,queries,alpha,beta,gamma,data set,"),
        ("markdown", "**Weights dsc**\n\n| group | queries | alpha | beta | gamma |"),
        ("latex", "\\begin{table}\n"),
    ],
)
def test_show_in_every_form_on_stdout_and_in_a_file(searched, tmp_path, form, begins):
    printed = succeed("weights", "show", searched, "--format", form)
    assert printed.out.startswith(begins)
    written = succeed("weights", "show", searched, "--format", form, "-o", tmp_path / "w")
    assert written.out == ""
    assert (tmp_path / "w").read_text() == printed.out


def test_weights_must_exist_and_be_named_if_there_are_several(run_path):
    fail(2, f"{run_path} has no weights yet", "weights", "show", run_path)
    for method in ("mean", "greedy"):
        succeed("search", run_path, "--method", method)
    fail(2, "several weights: choose one with --weights {greedy,mean}", "weights", "show", run_path)
    fail(2, "several weights", "weights", "export", run_path, "-o", run_path / "x.csv")
    fail(2, "has no weights 'x'; available: 'greedy', 'mean'", "weights", "show", run_path, "--weights", "x")
    assert succeed("weights", "show", run_path, "--weights", "mean").out.startswith("Weights mean\n")


@pytest.mark.parametrize("form", ["json", "csv", "npy"])
def test_exported_weights_come_back(searched, tmp_path, form):
    file = tmp_path / f"mine.{form}"
    outcome = succeed("weights", "export", searched, "-o", file)
    assert (outcome.out, outcome.err) == ("", f"relens: wrote {file}; models in order: alpha, beta, gamma\n")
    value = succeed("weights", "import", searched, file, "--json").json
    assert value == {"weights": str(searched / "weights" / "mine.json"), "models": MODELS, "groups": 8}
    before, after = kept(searched), kept(searched, "mine")
    lowest = before.table // np.gcd.reduce(before.table, axis=1, keepdims=True)
    assert np.array_equal(after.table, lowest if form == "npy" else before.table)
    if form == "json":
        assert after.to_json() == before.to_json()
    evaluated = [succeed("evaluate", searched, "--weights", name, "--json").json for name in ("dsc", "mine")]
    assert evaluated[0]["overall"]["mrr"] == pytest.approx(evaluated[1]["overall"]["mrr"], abs=1e-12)
    if form != "npy":
        assert evaluated[0]["overall"] == evaluated[1]["overall"]


@pytest.mark.parametrize("form", ["json", "csv", "npy"])
def test_a_form_that_loses_the_input_says_so(run_path, tmp_path, form):
    succeed("search", run_path, "--method", "simple", "--input", "sqrt", "--jobs", 1)
    outcome = succeed("weights", "export", run_path, "-o", tmp_path / f"w.{form}")
    said = "relens: the file does not say that the weights are for the input sqrt: import with --input sqrt\n"
    assert (said in outcome.err) == (form != "json")
    succeed("weights", "import", run_path, tmp_path / f"w.{form}", *([] if form == "json" else ["--input", "sqrt"]))
    assert kept(run_path, "w").input == "sqrt"


def test_imported_weights_are_not_called_fitted(searched, tmp_path):
    succeed("weights", "export", searched, "-o", tmp_path / "mine.csv")
    outcome = succeed("weights", "import", searched, tmp_path / "mine.csv")
    path = searched / "weights" / "mine.json"
    assert (outcome.out, outcome.err) == ("", f"relens: wrote {path}: 8 groups of alpha, beta, gamma\n")
    shown = succeed("weights", "show", searched, "--weights", "mine").out
    assert "method: imported" in shown
    assert "fitted on" not in shown
    assert "settings: method imported, file mine.csv" in succeed("evaluate", searched, "--weights", "mine").out


def test_an_npy_by_relation_for_some_of_the_models(searched, tmp_path):
    np.save(tmp_path / "w.npy", np.array([[1.0, 3.0]] * 4))
    succeed("weights", "import", searched, tmp_path / "w.npy", "--models", "gamma,alpha", "--name", "two")
    found = succeed("evaluate", searched, "--weights", "two", "--json").json
    assert found["grouping"] == "relation"
    by_loop = simulated.mrr_by_loop("test", lambda r, d: [3, 0, 1])
    assert found["overall"]["mrr"] == pytest.approx(by_loop, abs=1e-12)


def test_a_csv_by_hand(searched, tmp_path):
    text = "group,beta,alpha,gamma\nrelation 3,0,1,2\n(fallback),5,0,0\n"
    (tmp_path / "w.csv").write_text(text)
    succeed("weights", "import", searched, tmp_path / "w.csv", "--group", "relation")
    found = succeed("evaluate", searched, "--weights", "w", "--json").json
    by_loop = simulated.mrr_by_loop("test", lambda r, d: [1, 0, 2] if r == 3 else [0, 5, 0])
    assert found["overall"]["mrr"] == pytest.approx(by_loop, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("w.csv", "group,alpha,beta,gamma\nrelation 0 [tail],1,-2,1\n", [], "w.csv, line 2: found the negative weight"),
        ("w.csv", "group,alpha,beta,gamma\nrelation 0 [tail],0,0,0\n", [], "w.csv, line 2: all weights of a vector"),
        ("w.csv", "group,alpha,bata,gamma\nrelation 0 [tail],1,1,1\n", [], "unknown model 'bata'; did you mean 'beta'"),
        ("w.csv", "group,alpha\nrelation 0,1\n", [], "unknown group 'relation 0'; did you mean 'relation 0 [tail]'"),
        ("w.csv", "group,alpha\nrelation 0,1\n", ["--group", "nothing"], "unknown grouping 'nothing'"),
        ("w.csv", "group,alpha\n", ["--models", "alpha"], "--models names the columns of an .npy table; w.csv names"),
        ("w.json", "{}", [], "w.json is not a 'relens weights' record: its kind is None"),
        ("w.json", "[", [], "w.json is not readable JSON"),
        ("w.npy", "junk", [], "w.npy cannot be read as a plain .npy array"),
        ("w.txt", "1", [], "unknown format of"),
        ("a b.csv", "group,alpha\n", [], "'a b' cannot name weights or an evaluation"),
        ("dsc.csv", "group,alpha\n", [], "has weights 'dsc' already: give --force to replace them, or a new --name"),
        ("w.csv", "group,alpha\n", ["--input", "ranks"], "Invalid value for '--input'"),
    ],
)  # fmt: skip
def test_failed_imports_are_explained_and_change_nothing(searched, tmp_path, name, content, options, message):
    (tmp_path / name).write_text(content)
    before = (searched / "weights" / "dsc.json").read_bytes()
    fail(2, message, "weights", "import", searched, tmp_path / name, *options)
    assert (searched / "weights" / "dsc.json").read_bytes() == before
    assert [path.name for path in (searched / "weights").glob("*.json")] == ["dsc.json"]


def test_a_file_that_is_not_there_is_wrong_use(searched, tmp_path):
    fail(2, "does not exist", "weights", "import", searched, tmp_path / "none.csv")
    (tmp_path / "w.csv").write_text("")
    fail(2, "none is not a run: it does not exist", "weights", "import", tmp_path / "none", tmp_path / "w.csv")
    fail(2, "Missing argument 'FILE'", "weights", "import", searched)


def test_force_replaces(searched, tmp_path):
    (tmp_path / "dsc.csv").write_text("group,alpha,beta,gamma\n(fallback),0,0,7\n")
    succeed("weights", "import", searched, tmp_path / "dsc.csv", "--force")
    assert kept(searched).fallback.tolist() == [0, 0, 7]
    assert not kept(searched).own.any()


def test_weights_of_another_data_set_are_refused(searched, tmp_path):
    succeed("weights", "export", searched, "-o", tmp_path / "mine.json")
    sets = [replace(simulated.SIMULATION, seed=6).packed(split) for split in ("valid", "test")]
    other = simulated.write_run(tmp_path / "other", *sets)
    message = "the weights were fitted on 'simulated' (seed 36), the ranks are of 'simulated' (seed 6)"
    fail(2, message, "weights", "import", other, tmp_path / "mine.json")
    assert not (other / "weights").exists()


def test_score_weights_need_score_gaps(tmp_path):
    sets = [simulated.packed(split, gaps=False) for split in ("valid", "test")]
    run_path = simulated.write_run(tmp_path / "r", *sets)
    (tmp_path / "w.csv").write_text("group,alpha,beta,gamma\n(fallback),1,1,1\n")
    fail(2, "input 'score' needs score gaps", "weights", "import", run_path, tmp_path / "w.csv", "--input", "score")
    succeed("weights", "import", run_path, tmp_path / "w.csv", "--input", "sqrt")
    assert kept(run_path, "w").input == "sqrt"


def test_export_refuses_what_it_cannot_write(searched, tmp_path):
    fail(2, "unknown format of", "weights", "export", searched, "-o", tmp_path / "w.txt")
    fail(2, "Missing option '-o' / '--output'", "weights", "export", searched)
    (tmp_path / "file").write_text("")
    for form in ("json", "csv", "npy"):
        fail(
            1,
            f"cannot write {tmp_path}/file/w.{form}",
            "weights",
            "export",
            searched,
            "-o",
            tmp_path / f"file/w.{form}",
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "tiny"]


def test_an_interrupted_export_leaves_the_old_file(searched, tmp_path, monkeypatch):
    (tmp_path / "w.csv").write_text("old")

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("relens.files.os.fsync", interrupted)
    for form in ("csv", "json", "npy"):
        fail(130, "interrupted", "weights", "export", searched, "-o", tmp_path / f"w.{form}")
    assert (tmp_path / "w.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny", "w.csv"]


def test_the_group_of_verbs_explains_itself():
    assert "Show, export and import ensemble weights." in succeed("weights", "--help").out
    fail(2, "No such command 'shwo'", "weights", "shwo")


def test_a_real_process_exports(searched, tmp_path):
    done = relens_process("weights", "export", searched, "-o", tmp_path / "w.csv")
    assert (done.code, done.out) == (0, "")
    assert (tmp_path / "w.csv").read_text().startswith("group,queries,alpha,beta,gamma\nrelation 0 [tail],3,")
