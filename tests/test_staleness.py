"""Weights, comparisons and reports that no longer belong together are named; those that do are not."""

import shutil
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import relens
from relens.packs.store import save_pack
from relens.runs import Run
from relens.staleness import changed_methods, kept_comparison, page_comparison, stale_results, stale_weights
from tests.cli.commands import succeed
from tests.pipeline.test_upgrade import OLD

SEARCH = ("--method", "simple", "--input", "rank", "--name", "dsc", "--jobs", "1")
EARLIER = "the comparison and the report still show earlier weights of dsc: make them again with `relens report "


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of two models with weights, a comparison and a report; tests only read it."""
    run = shutil.copytree(OLD / "run", tmp_path_factory.mktemp("stale") / "run")
    relens.upgrade(run, data=OLD / "graph")
    return run


@pytest.fixture
def run(made, tmp_path):
    return Run.open(shutil.copytree(made, tmp_path / "run"))


def keep_fewer_ranks(run: Run) -> None:
    """Replace the ranks of a run by those of one model."""
    packed = {split: run.ranks(split).select_models(["complex"]) for split in ("valid", "test")}
    with run.replace_ranks(run.dataset, force=True) as folder:
        for split, ranks in packed.items():
            save_pack(ranks, folder / split)


def test_what_belongs_together_is_not_named(run):
    assert stale_results(run) == ()
    assert run.comparison().notes == kept_comparison(run).notes
    run.keep_weights("dsc", run.weights("dsc"))
    run.keep_weights("mine", replace(run.weights("dsc"), notes=("mine",)))
    assert stale_results(run) == (), "equal weights, and weights that no comparison shows"


def test_a_new_search_names_comparison_and_report_until_the_report_is_made_again(run):
    outcome = succeed("search", run.path, *SEARCH)
    assert f"warning: {EARLIER}{run.path}`" in outcome.err
    assert stale_results(run) == (f"{EARLIER}{run.path}`",)
    assert run.comparison().notes[-1] == stale_results(run)[-1]
    assert list(changed_methods(kept_comparison(run), run)) == ["dsc"]
    before = kept_comparison(run)
    outcome = succeed("report", run.path)
    assert "dsc: evaluating the weights that the run has now" in outcome.err
    assert stale_results(run) == ()
    after = kept_comparison(run)
    assert after.weights["dsc"].to_json() == run.weights("dsc").to_json() != before.weights["dsc"].to_json()
    assert [found.name for found in after.evaluations] == [found.name for found in before.evaluations]
    for old, new in zip(before.evaluations, after.evaluations, strict=True):
        assert (old == new) == (old.name != "dsc")
    expected = succeed("evaluate", run.path, "--weights", "dsc", "--json", "--seed", "3").json["overall"]
    shown = next(found for found in after.evaluations if found.name == "dsc")
    assert shown.overall.to_json() == expected


def test_imported_weights_are_named_alike(run, tmp_path):
    succeed("weights", "export", run.path, "--weights", "mean", "-o", tmp_path / "mean.json")
    outcome = succeed("weights", "import", run.path, tmp_path / "mean.json", "--name", "dsc", "--force")
    assert EARLIER in outcome.err


def test_a_report_of_an_earlier_comparison_is_named(run):
    succeed("search", run.path, *SEARCH)
    relens.report(run.path)
    assert len(page_comparison(run)) == 16
    page = run.report_path / "index.html"
    earlier = page.read_text()
    relens.report(run.path)
    assert page.read_text() == earlier
    succeed("search", run.path, "--method", "mean", "--name", "dsc", "--jobs", "1")
    relens.report(run.path, output=run.path.parent / "elsewhere")
    assert stale_results(run) == (
        f"the report still shows an earlier comparison: make them again with `relens report {run.path}`",
    )
    shutil.rmtree(run.report_path)
    assert page_comparison(run) is None
    assert stale_results(run) == ()


def test_new_ranks_make_weights_and_comparison_stale(run):
    keep_fewer_ranks(run)
    # Weights of complex alone would fit: none of these are.
    assert stale_weights(run) == run.weights_names
    first, second = stale_results(run)
    assert first.startswith("weights of earlier validation ranks: dsc, ")
    assert second.startswith("the comparison and the report still show earlier ranks: make them again with")
    assert f"warning: {first}" in succeed("ranks", "show", run.path).err
    assert (
        "the weights mean were fitted on other validation ranks"
        in succeed("weights", "show", run.path, "--weights", "mean").err
    )
    page = relens.report(run.path).read_text()
    assert "The run has weights of earlier validation ranks (dsc, " in page
    assert stale_results(run) == (first,)
    succeed("search", run.path, "--method", "mean", "--name", "mean", "--jobs", "1")
    assert "mean" not in stale_weights(run)


def test_weights_of_some_models_are_no_part_of_a_comparison_of_all(run):
    outcome = succeed("search", run.path, "--models", "complex", "--method", "mean", "--name", "dsc", "--jobs", "1")
    assert (
        "still show weights of dsc for transe, complex, but the run now has weights of that name for other"
        in outcome.err
    )
    assert stale_weights(run) == []
    assert changed_methods(kept_comparison(run), run) == {}


def test_damaged_files_do_not_stop_the_search_for_stale_ones(run):
    run.comparison_path.write_text("{")
    (run.path / "weights" / "mean.json").write_text("{")
    assert stale_results(run) == ()
    (run.ranks_path("valid") / "manifest.json").write_text("{")
    assert stale_results(run) == ()
