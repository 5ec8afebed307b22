"""``relens search``: weights from validation ranks, kept in the run."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from relens import __version__ as relens_version
from relens.cli import search as search_module
from relens.cli.search import JOURNAL
from relens.data.queries import Queries
from relens.ensemble.weights import EnsembleWeights
from relens.errors import RelensError
from relens.files import read_json
from relens.packs.pack import PackedRanks, PackHeader
from relens.packs.packing import pack_ranks
from relens.packs.store import assemble
from relens.records import Provenance
from tests import simulated
from tests.cli.commands import Outcome, fail, relens, relens_process, succeed
from tests.clusters.clusters import start
from tests.patience import HANG
from tests.random_packs import changed

QUICK = ("--input", "rank", "--regularise", "none", "--jobs", "1")


def kept(run_path: Path, name: str) -> dict:
    """Return the weights that a run keeps, as JSON."""
    value: dict = read_json(run_path / "weights" / f"{name}.json", "record")
    return value


def best_single() -> tuple[str, float]:
    mrrs = {model: simulated.model_mrr_by_loop("valid", model) for model in simulated.SIMULATION.models}
    best = max(mrrs, key=lambda model: mrrs[model])
    return best, mrrs[best]


def check_numbers(outcome: Outcome, run_path: Path, name: str) -> None:
    """Compare what ``search --json`` reported with loops over dense ranks."""
    found = outcome.json
    by_loop = simulated.mrr_by_loop("valid", simulated.weights_of(kept(run_path, name)))
    assert found["validation"]["mrr"] == pytest.approx(by_loop, abs=1e-12)
    best, best_mrr = best_single()
    assert found["validation"]["best_single"] == best
    assert found["validation"]["best_single_mrr"] == pytest.approx(best_mrr, abs=1e-12)
    assert found["weights"] == str(run_path / "weights" / f"{name}.json")
    assert found["settings"] == kept(run_path, name)["settings"]


def test_the_default_keeps_dsc_weights_and_reports_two_lines(run_path):
    outcome = succeed("search", run_path, "--jobs", 2)
    value = kept(run_path, "dsc")
    assert value["settings"]["method"] == "dsc"
    assert set(value["settings"]["cross_validation"]) == {"rank", "log", "sqrt", "rrf", "score"}
    first, second = outcome.out.splitlines()
    assert first.startswith(f"{run_path}/weights/dsc.json: method dsc, input {value['input']}, seed 0, searcher sweep")
    best, best_mrr = best_single()
    assert f"(best single model: {best}, {best_mrr:.4f})" in second
    assert second.startswith("validation MRR 0.")


def test_without_regularisation_no_group_is_worse_than_global_mean_or_best_model(run_path):
    outcome = succeed("search", run_path, *QUICK, "--json")
    check_numbers(outcome, run_path, "dsc")
    value = kept(run_path, "dsc")
    own = simulated.weights_of(value)
    fallback = [value["fallback"][model] for model in simulated.SIMULATION.models]
    constants = [fallback, [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    mine = simulated.ranks_by_loop("valid", own)
    for constant in constants:
        theirs = simulated.ranks_by_loop("valid", lambda r, d, c=constant: c)
        for relation in range(4):
            for direction in (0, 1):
                at = [q for q, row in enumerate(simulated.dense("valid")) if row[:2] == (relation, direction)]
                assert sum(1 / mine[q] for q in at) >= sum(1 / theirs[q] for q in at)


@pytest.mark.parametrize("method", ["mean", "mrr-mean", "stacking", "best-single", "greedy", "simple"])
def test_every_method_of_one_vector_has_the_numbers_of_a_loop(run_path, method):
    outcome = succeed("search", run_path, "--method", method, "--json", *QUICK)
    check_numbers(outcome, run_path, method)
    assert kept(run_path, method)["groups"] == {}


@pytest.mark.parametrize(
    ("method", "searcher", "name"),
    [("dsc", "tpe", "dsc-tpe"), ("dsc", "random", "dsc-random"), ("simple", "tpe", "simple-tpe"),
     ("basic", "random", "basic-random"), ("basic", "tpe", "basic-tpe"), ("mean", "tpe", "mean")],
)  # fmt: skip
def test_sampling_searchers_keep_their_weights_under_their_own_names(run_path, method, searcher, name):
    options = ("--method", method, "--searcher", searcher, "--trials", 5, "--jobs", 1, "--json")
    outcome = succeed("search", run_path, *options)
    check_numbers(outcome, run_path, name)
    settings = outcome.json["settings"]
    assert settings["method"] == method
    assert settings["input"] == "rank"
    if method != "mean":
        assert (settings["searcher"], settings["trials"]) == (searcher, 5)
        assert settings.get("startup_trials") == (20 if searcher == "tpe" else None)
    assert succeed("search", run_path, *options).json["validation"] == outcome.json["validation"]


def test_the_name_seed_grouping_and_models_are_as_asked(run_path):
    options = ("--name", "mine+1.x", "--group", "relation", "--models", "gamma,alpha", "--seed", 9)
    succeed("search", run_path, *QUICK, *options)
    value = kept(run_path, "mine+1.x")
    assert value["models"] == ["gamma", "alpha"]
    assert value["grouping"] == "relation"
    assert value["settings"]["seed"] == 9
    assert set(value["groups"]) == {f"relation {r}" for r in range(4)}
    check = succeed("evaluate", run_path, "--weights", "mine+1.x", "--split", "valid", "--json").json
    by_loop = simulated.mrr_by_loop("valid", simulated.weights_of(value))
    assert check["overall"]["mrr"] == pytest.approx(by_loop, abs=1e-12)


def test_a_grouping_file_joins_relations(run_path, tmp_path):
    (tmp_path / "groups.tsv").write_text("relation 0\tsmall\nrelation 1\tsmall\n")
    succeed("search", run_path, *QUICK, "--group", tmp_path / "groups.tsv", "--regularise", "5")
    value = kept(run_path, "dsc")
    assert set(value["groups"]) == {"small", "relation 2", "relation 3"}
    assert value["groups"]["small"]["queries"] == 18
    assert value["settings"]["kappa"] == 5.0


def test_results_do_not_depend_on_the_number_of_workers(run_path):
    for jobs in (1, 3):
        succeed("search", run_path, "--jobs", jobs, "--name", f"jobs{jobs}", "--input", "rank")
    one, three = (read_json(run_path / "weights" / f"jobs{jobs}.json", "weights") for jobs in (1, 3))
    own = ("name", "checksum")  # the name of the weights, and what it changes
    assert {key: one[key] for key in one if key not in own} == {key: three[key] for key in three if key not in own}


def test_times_are_messages_and_in_the_log_beside_the_weights(run_path):
    outcome = succeed("search", run_path, *QUICK)
    assert re.search(r"^relens: the search took \d+\.\d s$", outcome.err, re.MULTILINE)
    assert "seconds" not in succeed("search", run_path, *QUICK, "--json").json
    log = run_path / "weights" / "dsc.log.jsonl"
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    assert [list(step) for step in steps] == [["seconds", "evaluations", "mrr"]] * len(steps)
    assert [step["mrr"] for step in steps] == sorted(step["mrr"] for step in steps)
    reached = succeed("evaluate", run_path, "--split", "valid", "--json").json["overall"]["mrr"]
    assert steps[-1]["mrr"] == pytest.approx(reached, abs=1e-12)
    succeed("search", run_path, "--method", "mean", "--name", "dsc")
    assert not log.exists(), "the log of another search"


def test_the_test_split_is_not_read(run_path):
    succeed("search", run_path, *QUICK, "--name", "with")
    shutil.rmtree(run_path / "ranks" / "test")
    succeed("search", run_path, *QUICK, "--name", "without")
    assert kept(run_path, "with")["groups"] == kept(run_path, "without")["groups"]


@pytest.mark.parametrize("fallback", ["global", "uniform"])
def test_groups_without_validation_queries_are_noted(tmp_path, fallback):
    valid = simulated.packed("valid")
    some = valid.select_queries(np.flatnonzero(valid.queries.relation != 2))
    run_path = simulated.write_run(tmp_path / "r", valid=some)
    outcome = succeed("search", run_path, *QUICK, "--fallback", fallback, "--json")
    line = f"2 of 8 groups have no validation queries: {fallback} weights"
    assert f"relens: {line}\n" in outcome.err
    assert outcome.json["notes"] == [line]
    value = kept(run_path, "dsc")
    assert "relation 2 [tail]" not in value["groups"]
    assert (set(value["fallback"].values()) == {1}) == (fallback == "uniform")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--regularise", "abc"], "regularise is 'abc', expected auto, none, or a number κ of at least 0"),
        (["--regularise", "-1"], "regularise is '-1', expected auto, none, or a number κ of at least 0"),
        (["--regularise", "nan"], "regularise is 'nan'"),
        (["--method", "basic"], "Choose the searcher tpe or random, or the method dsc."),
        (["--method", "dcs"], "Invalid value for '--method': 'dcs' is not one of 'mean', 'mrr-mean'"),
        (["--searcher", "grid"], "Invalid value for '--searcher'"),
        (["--input", "ranks"], "Invalid value for '--input'"),
        (["--trials", "0"], "Invalid value for '--trials': 0 is not in the range x>=1"),
        (["--seed", "-1"], "Invalid value for '--seed': -1 is not in the range x>=0"),
        (["--jobs", "0"], "Invalid value for '--jobs': 0 is not in the range x>=1"),
        (["--fallback", "none"], "Invalid value for '--fallback'"),
        (["--group", "relatoin"], "unknown grouping 'relatoin': expected 'relation-direction', 'relation', or a file"),
        (["--models", "alpha,gama"], "unknown model 'gama'; did you mean 'gamma'?"),
        (["--models", "alpha,alpha"], "Invalid value for '--models': model 'alpha' is named twice"),
        (["--models", ","], "Invalid value for '--models': it names no model; leave the option out to use all"),
        (["--name", "../x"], "'../x' cannot name weights or an evaluation"),
        (["--name", ""], "cannot name weights"),
        (["--no-such-option"], "No such option"),
        (["another"], "Got unexpected extra argument (another)"),
    ],
)
def test_wrong_use_is_explained_and_writes_nothing(run_path, options, message):
    fail(2, message, "search", run_path, *options)
    assert not (run_path / "weights").exists()


def test_a_grouping_file_with_an_unknown_relation_is_refused(run_path, tmp_path):
    (tmp_path / "g.tsv").write_text("relation 0\tx\nrelation 9\tx\n")
    message = f"{tmp_path}/g.tsv, line 2: unknown relation 'relation 9'; did you mean 'relation 3'"
    fail(2, message, "search", run_path, "--group", tmp_path / "g.tsv")


def test_score_gaps_are_needed_for_scores(tmp_path):
    valid, test = (simulated.packed(split, gaps=False) for split in ("valid", "test"))
    run_path = simulated.write_run(tmp_path / "r", valid, test)
    fail(2, "input 'score' needs score gaps, and these packed ranks have none", "search", run_path, "--input", "score")
    value = succeed("search", run_path, "--jobs", 1, "--json").json
    assert set(value["settings"]["cross_validation"]) == {"rank", "log", "sqrt", "rrf"}


def test_paths_that_are_not_runs_are_named(run_path, tmp_path):
    fail(2, f"{tmp_path}/none is not a run: it does not exist. Make one with", "search", tmp_path / "none")
    fail(2, f"{tmp_path} is not a run: it has no run.json.", "search", tmp_path)
    (tmp_path / "file").write_text("")
    fail(2, "file is not a run: it is a file.", "search", tmp_path / "file")
    fail(2, "Missing argument 'RUN'", "search")


def test_missing_or_damaged_validation_ranks_are_named(run_path):
    (run_path / "ranks" / "valid" / "contested.bin").write_bytes(b"")
    fail(2, "contested.bin is damaged: it has 0 bytes", "search", run_path)
    shutil.rmtree(run_path / "ranks" / "valid")
    fail(2, "has no ranks of valid (present: test). Add them with `relens ranks pack --run", "search", run_path)


def test_an_empty_validation_split_is_refused(tmp_path):
    nothing = simulated.packed("valid").select_queries(np.empty(0, dtype=np.int64))
    run_path = simulated.write_run(tmp_path / "r", valid=nothing)
    fail(2, "the valid split of 'simulated' has no queries, and weights are fitted on them", "search", run_path)


def test_an_interrupt_leaves_the_old_weights(run_path, monkeypatch):
    succeed("search", run_path, "--method", "mean", "--name", "x")
    before = (run_path / "weights" / "x.json").read_bytes()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "search_weights", interrupted)
    fail(130, "interrupted; nothing half-written was left behind", "search", run_path, "--name", "x")
    monkeypatch.setattr(search_module, "search_weights", _raise_disk)
    fail(1, "relens: error: cannot write it", "search", run_path, "--name", "x")
    monkeypatch.undo()
    monkeypatch.setattr(EnsembleWeights, "to_json", interrupted)
    fail(130, "interrupted", "search", run_path, "--name", "x", "--method", "greedy")
    assert (run_path / "weights" / "x.json").read_bytes() == before
    assert [path.name for path in (run_path / "weights").iterdir()] == ["x.json"]


def _raise_disk(*_: object, **__: object) -> None:
    raise RelensError("cannot write it")


def test_a_missing_extra_is_a_failure_that_says_what_to_install(run_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    fail(1, "searcher 'tpe' needs an optional dependency: pip install -c constraints.txt '.[tpe]'",
         "search", run_path, "--searcher", "tpe", "--jobs", 1)  # fmt: skip
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    fail(1, "pip install -c constraints.txt '.[stacking]'", "search", run_path, "--method", "stacking")
    assert not (run_path / "weights").exists()


def toy(ranks: list[list[list[int]]], answers: list[int], split: str = "valid") -> PackedRanks:
    """Pack ranks (N, Q, C) of one relation."""
    n = len(answers)
    queries = Queries.from_columns(np.array([[0] * n, [0] * n, [q % 2 for q in range(n)], answers, range(n)]))
    header = PackHeader(
        tuple(f"m{i}" for i in range(len(ranks))), ("r",), queries, Provenance("simulated", "f00d", split)
    )
    return assemble(header, [pack_ranks([np.array(model) for model in ranks], np.array(answers))])


@pytest.mark.parametrize("method", ["mean", "mrr-mean", "stacking", "best-single", "greedy", "simple", "dsc"])
@pytest.mark.parametrize(
    ("ranks", "answers", "mrr"),
    [
        ([[[2, 1, 3]]], [0], 1 / 2),
        ([[[2, 1, 3]], [[1, 2, 3]]], [0], None),
        ([[[1, 1, 1, 1]], [[2, 2, 2, 2]]], [3], 2 / 5),
        ([[[1, 1, 1], [2, 2, 2]]], [0, 1], 2 / 4),
    ],
    ids=["one model, one query", "two models, one query", "all tied", "one model, all tied"],
)
def test_the_smallest_runs_work(tmp_path, method, ranks, answers, mrr):
    valid = toy(ranks, answers)
    run_path = simulated.write_run(tmp_path / "r", valid, toy(ranks, answers, "test"))
    outcome = succeed("search", run_path, "--method", method, "--jobs", 1, "--json")
    if mrr is None:
        mrr = 2 / 3 if method == "mean" else 1.0  # all others see which model is right
    assert outcome.json["validation"]["mrr"] == pytest.approx(mrr)
    evaluated = succeed("evaluate", run_path, "--jobs", 1, "--json").json
    assert evaluated["overall"]["mrr"] == pytest.approx(outcome.json["validation"]["mrr"])


def test_a_real_process_searches_and_keeps_stdout_clean(run_path):
    done = relens_process("search", run_path, "--method", "greedy", "--json")
    assert done.code == 0, done.err
    assert done.json["validation"] == succeed("search", run_path, "--method", "greedy", "--json").json["validation"]
    few = "60 validation queries are few to fit weights on, and the best single model may do better"
    warning = f"relens: warning: {few}: hold out more triples as valid\n"
    assert re.fullmatch(rf"relens: the search took \d+\.\d s\n{re.escape(warning)}", done.err)
    wrong = relens_process("search", run_path, "--regularise", "abc")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "relens: error: regularise is 'abc', expected auto, none, or a number κ of at least 0\n"


def test_two_runs_that_differ_in_labels_do_not_share_weights(run_path, tmp_path):
    succeed("search", run_path, "--method", "mean")
    valid = simulated.packed("valid")
    renamed = changed(valid, relations=tuple(f"other {r}" for r in range(4)))
    other = simulated.write_run(tmp_path / "other", renamed, renamed)
    (other / "weights").mkdir()
    shutil.copy(run_path / "weights" / "mean.json", other / "weights" / "mean.json")
    fail(2, "weights and ranks have different relations, for instance ['other 0', 'other 1', 'other 2']: fit again",
         "evaluate", other)  # fmt: skip
    assert relens("search", other, "--method", "mean").code == 0
    succeed("evaluate", other)


def searched(run_path: Path, *options: str) -> list:
    """Search, and return the weights of each group."""
    succeed("search", run_path, "--name", "found", "--input", "rank", *options)
    return kept(run_path, "found")["groups"]


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_weights_are_the_same_with_every_backend(run_path, backend):
    assert searched(run_path, "--backend", backend, "--jobs", "2") == searched(run_path, "--jobs", "1")


def test_a_cluster_finds_the_same_and_leaves_no_journal(run_path, tmp_path, monkeypatch):
    with start("dask", tmp_path) as running:
        options = ("--backend", "dask", "--address", running.address)
        found = searched(run_path, *options)
        monkeypatch.setattr("relens.clusters.engines.__version__", "0.0.1")
        message = f"have relens {relens_version}, this is 0.0.1: results could differ. Install the same version"
        fail(2, message, "search", run_path, *options)
    assert found == searched(run_path)
    assert not (run_path / JOURNAL).exists()


@pytest.mark.parametrize(
    "options", [("--backend", "dask"), ("--address", "a:1"), ("--backend", "loky", "--address", "a:1")]
)
def test_an_address_goes_with_a_cluster(run_path, options):
    fail(2, "--address goes with --backend dask or ray", "search", run_path, *options)


SLOW = ("--input", "rank", "--regularise", "none", "--searcher", "random", "--trials", "8000", "--jobs", "1")
"""A search whose parts take a while."""


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_lost_cluster_ends_the_search_and_a_new_one_finishes_it(run_path, tmp_path, backend):
    for number in range(2):
        (tmp_path / str(number)).mkdir()
    with start(backend, tmp_path / "0") as running:
        command = ["search", str(run_path), *SLOW, "--backend", backend, "--address", running.address]
        process = subprocess.Popen([sys.executable, "-m", "relens", *command], stderr=subprocess.PIPE, text=True)
        journal = run_path / JOURNAL
        while process.poll() is None and not (journal.exists() and journal.read_text()):
            time.sleep(0.05)
        running.lose(running.head)
        errors = " ".join(process.communicate(timeout=HANG)[1].split())
    centre = {"dask": "scheduler", "ray": "head node"}[backend]
    assert process.returncode == 1, errors
    assert f"cluster at {running.address} is lost: its {centre} does not answer any more" in errors
    assert f"Finished parts are kept in {run_path}/{JOURNAL} (" in errors
    assert "run the same command again, with the address of a running cluster, to resume." in errors
    assert "Traceback" not in errors
    kept_lines = journal.read_text().splitlines()
    assert 0 < len(kept_lines) < 8
    with start(backend, tmp_path / "1") as running:
        found = searched(run_path, *SLOW, "--backend", backend, "--address", running.address)
    assert found == searched(run_path, *SLOW)
    assert not journal.exists()
