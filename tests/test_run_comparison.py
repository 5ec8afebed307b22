"""Two runs side by side: paired by query whatever their order, and refused where their queries differ."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import relens
from relens.data.queries import Queries
from relens.errors import RanksError, WeightsError
from relens.packs.pack import PackedRanks
from relens.run_comparison import compare_runs
from relens.runs import Run, open_run
from relens.significance import paired_test
from tests import simulated
from tests.cli.commands import fail, succeed
from tests.random_packs import changed

METHODS = ("dsc", "simple")


def with_weights(path: Path, test: PackedRanks | None = None) -> Run:
    """Write a run with weights of two methods; its test ranks may be given."""
    simulated.write_run(path, test=test)
    run = open_run(path)
    for method in METHODS:
        relens.search(simulated.packed("valid"), method=method, input="rank").save(run.weights_path(method))
    return run


def without_repeats(packed: PackedRanks) -> PackedRanks:
    """Return the queries that occur once: the simulation may repeat a query with other scores."""
    queries = packed.queries
    columns = np.stack([queries.anchor, queries.relation, queries.direction, queries.answer])
    return packed.select_queries(np.sort(np.unique(columns, axis=1, return_index=True)[1]))


def reordered(packed: PackedRanks) -> PackedRanks:
    """Return the same queries in another order, with the relations numbered in reverse."""
    shuffled = packed.select_queries(np.random.default_rng(5).permutation(packed.n_queries))
    queries = shuffled.queries
    last = len(packed.relations) - 1
    renumbered = Queries(queries.anchor, last - queries.relation, queries.direction, queries.answer, queries.triple)
    return changed(shuffled, queries=renumbered, relations=packed.relations[::-1])


@pytest.fixture
def ours(tmp_path: Path) -> Run:
    return with_weights(tmp_path / "ours")


def test_differences_are_those_of_loops(ours: Run, tmp_path: Path) -> None:
    theirs = with_weights(tmp_path / "theirs")
    found = compare_runs(ours, theirs.path, weights="dsc", other_weights="simple")
    split = simulated.packed("test")
    mine, other = (
        [float(1 / r) for r in simulated.ranks_by_loop("test", simulated.weights_of(run.weights(name).to_json()))]
        for run, name in ((ours, "dsc"), (theirs, "simple"))
    )
    assert found.ours.overall.mrr == pytest.approx(np.mean(mine), abs=1e-12)
    assert found.theirs.overall.mrr == pytest.approx(np.mean(other), abs=1e-12)
    assert found.ours.paired is not None
    assert found.ours.paired.difference == pytest.approx(np.mean(mine) - np.mean(other), abs=1e-12)
    assert found.ours.paired.reference == f"{theirs.path}, simple"
    assert list(found.by_relation) == [f"relation {r}" for r in range(4)]
    for r in range(4):
        at = np.flatnonzero(split.queries.relation == r)
        expected = paired_test(
            np.array(mine)[at], np.array(other)[at], split.queries.triple[at], reference=f"{theirs.path}, simple"
        )
        test = found.by_relation[f"relation {r}"]
        assert test.difference == pytest.approx(expected.difference, abs=1e-12)
        assert (test.p_value, test.exact) == (expected.p_value, expected.exact)


def test_queries_are_paired_whatever_their_order_and_the_numbers_of_relations(tmp_path: Path) -> None:
    once = without_repeats(simulated.packed("test"))
    ours, theirs = with_weights(tmp_path / "ours", once), with_weights(tmp_path / "theirs", reordered(once))
    found = compare_runs(ours, theirs, weights="dsc")
    assert found.ours.paired is not None
    assert found.ours.paired.difference == 0
    assert np.abs(found.ours.paired.interval).max() == 0
    assert all(test.p_value == 1 for test in found.by_relation.values())
    assert found.ours.overall.mrr == pytest.approx(found.theirs.overall.mrr, abs=1e-12)
    mixed = compare_runs(ours, theirs, weights="dsc", other_weights="simple")
    straight = compare_runs(ours, ours, weights="dsc", other_weights="simple")
    assert mixed.ours.paired is not None
    assert straight.ours.paired is not None
    assert tuple(mixed.ours.paired.interval) == pytest.approx(tuple(straight.ours.paired.interval), abs=1e-12)
    assert mixed.by_relation.keys() == straight.by_relation.keys()


def test_repeated_queries_are_paired_in_order(tmp_path: Path) -> None:
    test = simulated.packed("test")
    twice = test.select_queries(np.repeat(np.arange(test.n_queries), 2))
    found = compare_runs(with_weights(tmp_path / "a", twice), with_weights(tmp_path / "b", twice), weights="dsc")
    assert found.ours.overall.queries == 120
    assert found.ours.paired is not None
    assert found.ours.paired.difference == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fingerprint": "other"}, "fingerprint .* and 'other'"),
        ({"filter_splits": ("train",)}, r"filter_splits '' and 'train'"),
        ({"candidates": "sampled"}, "candidates 'all' and 'sampled'"),
    ],
)
def test_other_ranks_are_refused(ours: Run, tmp_path: Path, changes: dict[str, object], message: str) -> None:
    test = simulated.packed("test")
    provenance = replace(test.provenance, **changes)
    valid = simulated.packed("valid")
    valid = changed(valid, provenance=replace(valid.provenance, **changes))
    simulated.write_run(tmp_path / "theirs", valid, changed(test, provenance=provenance))
    theirs = open_run(tmp_path / "theirs")
    relens.search(valid, method="simple").save(theirs.weights_path("simple"))
    with pytest.raises(RanksError, match=f"cannot be compared, because their ranks differ .{message}"):
        compare_runs(ours, theirs, weights="simple")


def test_other_queries_are_refused(ours: Run, tmp_path: Path) -> None:
    fewer = with_weights(tmp_path / "fewer", simulated.packed("test").select_queries(np.arange(59)))
    with pytest.raises(RanksError, match="they have 60 and 59 queries, and not the same ones"):
        compare_runs(ours, fewer, weights="dsc")
    test = simulated.packed("test")
    queries = test.queries
    moved = Queries(queries.anchor, queries.relation, queries.direction, queries.answer + 1, queries.triple)
    moved_run = with_weights(tmp_path / "moved", changed(test, queries=moved))
    with pytest.raises(RanksError, match="they have 60 and 60 queries, and not the same ones"):
        compare_runs(ours, moved_run, weights="dsc")


def test_unknown_weights_are_refused(ours: Run) -> None:
    with pytest.raises(WeightsError, match="has no weights 'dsx'; did you mean 'dsc'"):
        compare_runs(ours, ours, weights="dsc", other_weights="dsx")


def test_the_command_prints_the_same_numbers(ours: Run) -> None:
    arguments = ("compare", ours.path, "--with", ours.path, "--weights", "dsc", "--other-weights", "simple")
    value = compare_runs(ours, ours, weights="dsc", other_weights="simple")
    found = succeed(*arguments, "--json").json
    assert found["ours"]["overall"]["mrr"] == value.ours.overall.mrr
    assert found["by_relation"]["relation 1"]["difference"] == value.by_relation["relation 1"].difference
    shown = " ".join(succeed(*arguments).out.split())
    assert value.ours.paired is not None
    assert f"{ours.path}, dsc, beside {ours.path}, simple" in shown
    assert f"all relations 60 {value.ours.overall.mrr:.4f} {value.theirs.overall.mrr:.4f} " in shown
    assert f"{value.ours.paired.difference:+.4f}" in shown
    assert shown.index("relation 3 24") < shown.index("relation 0 6")
    assert "p of single relations are not corrected" in shown


def test_options_that_do_not_go_together_are_refused(ours: Run) -> None:
    both = ("compare", ours.path, "--with", ours.path)
    fail(2, "METHOD is for fitting methods: it has no meaning with --with", "compare", ours.path, "mean", *both[2:])
    fail(2, "--input is for fitting methods", *both, "--input", "rank")
    fail(2, "--spread is for fitting methods", *both, "--spread")
    fail(2, "add --with OTHER_RUN", "compare", ours.path, "--weights", "dsc")
    assert "seed: 3" in " ".join(succeed(*both, "--seed", 3, "--weights", "dsc").out.split())
