"""Comparisons: methods are fitted on validation ranks alone and judged on the same test ranks."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from relens.comparison import DEFAULT_SPECS, Comparison, compare, parse_spec
from relens.data.queries import Queries
from relens.ensemble.search import search
from relens.ensemble.settings import SearchSettings
from relens.errors import InputError, RanksError, install_hint
from relens.packs.pack import PackedRanks, PackHeader
from relens.packs.packing import pack_ranks
from relens.packs.store import assemble
from relens.records import Provenance
from tests import simulated
from tests.random_packs import changed

CANDIDATES = 6


def pack(split: str, models: dict[str, Sequence[int]]) -> PackedRanks:
    """Pack models by the rank each gives the answers; neighbouring queries come from one triple."""
    n = len(next(iter(models.values())))
    queries = Queries.from_triples(np.array([(0, 0, i % CANDIDATES) for i in range((n + 1) // 2)]))[np.arange(n)]
    columns = np.arange(CANDIDATES)
    dense = [
        np.array(
            [(columns - answer + rank - 1) % CANDIDATES + 1 for answer, rank in zip(queries.answer, ranks, strict=True)]
        )
        for ranks in models.values()
    ]
    header = PackHeader(tuple(models), ("r",), queries, Provenance("toy", "f00d", split))
    return assemble(header, [pack_ranks(dense, queries.answer)])


def mrr_by_name(comparison: Comparison) -> dict[str, float]:
    return {evaluation.name: evaluation.overall.mrr for evaluation in comparison.evaluations}


def test_a_spec_changes_the_settings_it_names():
    base = SearchSettings(seed=7, group="relation")
    assert parse_spec("dsc", base) == base
    assert parse_spec("mean", base) == replace(base, method="mean")
    assert parse_spec("mean:", base) == replace(base, method="mean")
    changed = parse_spec("dsc:input=rank,regularise=none,trials=12,seed=3,fallback=uniform,searcher=random", base)
    assert changed == SearchSettings("dsc", "random", "rank", "none", "relation", "uniform", 12, 3)
    assert parse_spec("dsc:regularise=30", base).kappas() == (30.0,)
    assert parse_spec("dsc:group=a/b=c.tsv", base).group == "a/b=c.tsv"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("dcs", r"unknown method 'dcs'; did you mean 'dsc'\?"),
        ("", r"unknown method ''; available: 'mean'"),
        ("dsc:inptu=rank", r"method 'dsc:inptu=rank': found 'inptu=rank', expected key=value; did you mean 'input'\?"),
        ("dsc:input", r"method 'dsc:input': found 'input', expected key=value"),
        ("dsc:method=mean", r"found 'method=mean', expected key=value"),
        ("dsc:trials=many", r"method 'dsc:trials=many': trials is 'many', expected a whole number"),
        ("dsc:trials=0", r"trials is 0, expected at least 1"),
        ("dsc:seed=-1", r"seed is -1, expected at least 0"),
        ("dsc:input=ranks", r"unknown input 'ranks'; did you mean 'rank'\?"),
        ("dsc:searcher=grid", r"unknown searcher 'grid'; available: 'sweep', 'tpe', 'random'"),
        ("dsc:fallback=none", r"unknown fallback 'none'"),
        ("dsc:regularise=much", r"regularise is 'much', expected auto, none, or a number κ of at least 0"),
        ("basic", r"method 'basic' searches all groups jointly.*Choose the searcher tpe or random, or the method dsc"),
    ],
)
def test_a_wrong_spec_is_explained(spec, message):
    with pytest.raises(InputError, match=message):
        parse_spec(spec, SearchSettings())


def test_a_wrong_spec_is_found_before_anything_is_fitted(monkeypatch):
    monkeypatch.setattr("relens.comparison.search", lambda *_, **__: pytest.fail("fitted before all specs were read"))
    with pytest.raises(InputError, match="unknown method 'typo'"):
        compare(simulated.packed("valid"), simulated.packed("test"), ["dsc", "typo"])


def other_data(test: PackedRanks) -> PackedRanks:
    return changed(test, provenance=replace(test.provenance, fingerprint="other"))


def fewer_models(test: PackedRanks) -> PackedRanks:
    return test.select_models(test.models[:2])


def other_order(test: PackedRanks) -> PackedRanks:
    return test.select_models(test.models[::-1])


def other_relations(test: PackedRanks) -> PackedRanks:
    return changed(test, relations=(*test.relations[1:], "another"))


def sampled(test: PackedRanks) -> PackedRanks:
    return changed(test, provenance=replace(test.provenance, candidates="sampled"))


def other_scales(test: PackedRanks) -> PackedRanks:
    assert test.gap_scales is not None
    return changed(test, gap_scales=2 * test.gap_scales)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_data, r"the data sets of valid and test differ \(seed 36 and other\)\. Pack both splits from the same"),
        (fewer_models, r"the models of valid and test differ \(gamma only in valid\)"),
        (
            other_order,
            r"valid has alpha, beta, gamma, test has gamma, beta, alpha\)\. Pack the same models in the same",
        ),
        (other_relations, r"the relation labels of valid and test differ"),
        (sampled, r"the candidates of valid and test differ \(all and sampled\)"),
        (other_scales, r"the scales of score gaps of valid and test differ"),
    ],
)
def test_ranks_that_do_not_belong_together_are_refused(change, message):
    with pytest.raises(RanksError, match=message):
        compare(simulated.packed("valid"), change(simulated.packed("test")), ["mean"])


def test_a_test_split_without_queries_is_refused():
    nothing = simulated.packed("test").select_queries(np.empty(0, dtype=np.int64))
    with pytest.raises(RanksError, match=r"nothing to evaluate: simulated \(test\) has no queries"):
        compare(simulated.packed("valid"), nothing, ["mean"])
    with pytest.raises(RanksError, match=r"the test split of 'simulated' has no queries"):
        compare(nothing, simulated.packed("test"), ["mean"])


def test_the_best_single_model_is_chosen_on_validation():
    valid = pack("valid", {"steady": [1, 1, 2, 1], "lucky": [3, 4, 3, 4]})
    test = pack("test", {"steady": [3, 4, 3, 4], "lucky": [1, 1, 2, 1]})
    comparison = compare(valid, test, ["best-single"])
    assert comparison.best_single == "steady"
    mrrs = mrr_by_name(comparison)
    assert mrrs["lucky"] == pytest.approx(3.5 / 4)
    assert mrrs["best-single"] == mrrs["steady"] == pytest.approx((1 / 3 + 1 / 4) / 2)
    by_name = {evaluation.name: evaluation for evaluation in comparison.evaluations}
    assert by_name["steady"].paired is None
    assert by_name["lucky"].paired.reference == "steady"
    assert by_name["lucky"].paired.difference == pytest.approx(mrrs["lucky"] - mrrs["steady"])
    assert by_name["best-single"].paired.difference == 0


def test_numbers_are_those_of_loops_over_dense_ranks():
    valid, test = simulated.packed("valid"), simulated.packed("test")
    specs = ["mean", "best-single", "greedy", "simple:input=rank", "dsc:input=rank,regularise=none"]
    comparison = compare(valid, test, specs)
    mrrs = mrr_by_name(comparison)
    assert list(mrrs) == ["alpha", "beta", "gamma", *specs]
    for model in valid.models:
        assert mrrs[model] == pytest.approx(simulated.model_mrr_by_loop("test", model), abs=1e-12)
    for spec in specs:
        weights = simulated.weights_of(comparison.weights[spec].to_json())
        assert mrrs[spec] == pytest.approx(simulated.mrr_by_loop("test", weights), abs=1e-12)
    best = max(valid.models, key=lambda model: simulated.model_mrr_by_loop("valid", model))
    assert comparison.best_single == best
    assert comparison.notes == ()


def test_weights_are_those_of_a_fit_with_the_same_settings():
    valid, test = simulated.packed("valid"), simulated.packed("test")
    settings = SearchSettings(seed=3, group="relation")
    specs = ["mrr-mean", "dsc:input=sqrt,regularise=10", "dsc:searcher=random,trials=4"]
    comparison = compare(valid, test, specs, settings=settings)
    for spec in specs:
        expected = search(valid, **parse_spec(spec, settings).arguments())
        assert comparison.weights[spec].to_json() == expected.to_json()
        assert expected.grouping.scheme == "relation"
    assert {evaluation.grouping for evaluation in comparison.evaluations} == {"relation"}
    assert {evaluation.seed for evaluation in comparison.evaluations} == {3}


def test_test_ranks_never_influence_the_weights():
    valid, test = simulated.packed("valid"), simulated.packed("test")
    tempting = changed(valid, provenance=test.provenance)  # a test split on which over-fitting would pay
    specs = ["greedy", "dsc"]
    one, other = compare(valid, test, specs), compare(valid, tempting, specs)
    for spec in specs:
        assert one.weights[spec].to_json() == other.weights[spec].to_json()
    assert one.best_single == other.best_single
    assert mrr_by_name(one) != mrr_by_name(other)


def test_a_method_without_its_extra_becomes_a_note(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    monkeypatch.setitem(sys.modules, "optuna", None)
    valid, test = simulated.packed("valid"), simulated.packed("test")
    comparison = compare(valid, test, ["stacking", "simple:searcher=tpe", "mean"])
    assert comparison.notes == (
        f"stacking left out: method 'stacking' needs an optional dependency: {install_hint('stacking')}",
        f"simple:searcher=tpe left out: searcher 'tpe' needs an optional dependency: {install_hint('tpe')}",
    )
    assert list(comparison.weights) == ["mean"]
    assert [evaluation.name for evaluation in comparison.evaluations][-2:] == ["gamma", "mean"]


def test_a_model_may_be_called_like_a_method():
    valid = pack("valid", {"mean": [1, 2, 1, 1], "dsc": [3, 3, 2, 3]})
    test = pack("test", {"mean": [2, 2, 1, 1], "dsc": [3, 1, 3, 3]})
    comparison = compare(valid, test, ["mean", "dsc:input=rank"])
    assert [evaluation.name for evaluation in comparison.evaluations] == [
        "mean", "dsc", "mean (ensemble)", "dsc:input=rank",
    ]  # fmt: skip
    assert list(comparison.weights) == ["mean (ensemble)", "dsc:input=rank"]


def test_one_model_one_query_all_tied():
    level = np.full((1, CANDIDATES), 1)
    header = PackHeader(
        ("only",), ("r",), Queries.from_triples(np.array([(0, 0, 2)]))[np.arange(1)], Provenance("toy", "f00d", "valid")
    )
    packed = assemble(header, [pack_ranks([level], np.array([2]))])
    comparison = compare(packed, packed, DEFAULT_SPECS)
    assert set(mrr_by_name(comparison).values()) == {2 / (CANDIDATES + 1)}
    assert all(evaluation.overall.mrr_optimistic == 1 for evaluation in comparison.evaluations)
    assert all(evaluation.overall.mrr_pessimistic == 1 / CANDIDATES for evaluation in comparison.evaluations)


def test_the_default_specs_are_the_papers_methods_and_ours():
    methods = [parse_spec(spec, SearchSettings()).method for spec in DEFAULT_SPECS]
    assert methods == ["mean", "mrr-mean", "stacking", "greedy", "simple", "dsc", "simple", "dsc"]
    paper = parse_spec(DEFAULT_SPECS[-3], SearchSettings())
    assert (paper.input, paper.regularise, paper.group) == ("rank", "none", "relation-direction")
