"""Cross-validation: folds by triple, searches that never see held-out queries, a reproducible choice."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.ensemble import regularisation
from relens.ensemble.context import split_by_group
from relens.ensemble.grid import WEIGHT_LIMIT
from relens.ensemble.inputs import INPUTS
from relens.ensemble.pairs import Pairs
from relens.ensemble.regularisation import FOLDS, folds
from relens.ensemble.searchers.sweep import Sweep
from relens.packs.thinning import ContestedViews
from tests.ensemble import oracles
from tests.ensemble.cases import NAMES, Recorder, context_of, group_of, random_case
from tests.random_packs import changed


def choose(packed, inputs, kappas, **fields):
    """Choose among inputs by name, in groups by relation and direction."""
    context = context_of(packed, group=group_of(packed), **fields)
    return regularisation.choose(context, [INPUTS[name] for name in inputs], kappas)


def held_out_sums(packed, group, held_out, name, kappas):
    """Return the reciprocal sums of held-out queries for each strength."""
    return regularisation._held_out(context_of(packed, name, group=group), held_out, kappas).sum(axis=1)


# --- folds ----------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(0, 9))
def test_folds_keep_triples_together_and_are_balanced(triples, seed):
    triple = np.array(triples, dtype=np.int32)
    fold = folds(triple, seed)
    of_triple = {}
    for t, f in zip(triples, fold.tolist(), strict=True):
        assert of_triple.setdefault(t, f) == f
    sizes = np.bincount(list(of_triple.values()))
    assert len(sizes) == min(FOLDS, len(of_triple))
    assert sizes.max() - sizes.min() <= 1
    assert np.array_equal(fold, folds(triple, seed))


def test_folds_are_drawn_at_random_by_seed():
    triple = np.arange(40)
    assert not np.array_equal(folds(triple, 0), folds(triple, 1))
    assert not np.array_equal(folds(triple, 0), np.arange(40) % FOLDS)


# --- groups ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.data())
def test_splitting_by_group_lists_every_query_once_under_its_group(group, data):
    queries = data.draw(st.lists(st.integers(0, len(group) - 1), unique=True))
    present, members = split_by_group(np.array(group, dtype=np.int32), np.array(queries, dtype=np.int64))
    assert present.tolist() == sorted({group[q] for q in queries})
    assert [index.tolist() for index in members] == [[q for q in queries if group[q] == g] for g in present]


# --- held-out queries -----------------------------------------------------------------------------------------------


def spoiled(packed, held_out):
    """Return the pack with other ranks and gaps for the held-out queries: the models swapped, the answers worst."""
    answer, contested, gaps = packed.answer.copy(), packed.contested.copy(), packed.gaps.copy()
    columns = np.repeat(held_out, np.diff(packed.offsets))
    answer[:, held_out] = 2 * packed.n_candidates.max()
    contested[:, columns] = contested[::-1][:, columns]
    gaps[:, columns] = np.abs(gaps[::-1][:, columns]) + 1
    return changed(packed, answer=answer, contested=contested, gaps=gaps)


def spy_on_searches(monkeypatch):
    """Record the queries searched, the weights found, the scales of shrinkage and the queries ranked."""
    seen = {"members": [], "weights": [], "scales": [], "ranked": []}
    search, measure, ranks = Sweep.search_groups, regularisation.Shrinkage.from_pairs, regularisation.answer_ranks

    def spy_search(self, context, queries, members, *, lossless):
        assert not lossless
        overall, found = search(self, context, queries, members, lossless=lossless)
        seen["members"].append([index.tolist() for index in (queries, *members)])
        seen["weights"].append([result.weights.tolist() for result in (overall, *found)])
        return overall, found

    def spy_scales(views, queries, input):
        seen["members"].append([queries.tolist()])
        shrinkage = measure(views, queries, input)
        seen["scales"].append(shrinkage.scales.tolist())
        return shrinkage

    def spy_ranks(packed, table, group, *, queries, **kwargs):
        seen["ranked"].append((queries.tolist(), table.tolist()))
        return ranks(packed, table, group, queries=queries, **kwargs)

    monkeypatch.setattr(Sweep, "search_groups", spy_search)
    monkeypatch.setattr(regularisation.Shrinkage, "from_pairs", spy_scales)
    monkeypatch.setattr(regularisation, "answer_ranks", spy_ranks)
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_no_held_out_query_influences_the_search_of_its_fold(monkeypatch, name):
    packed = random_case(3, n_queries=16, n_candidates=20, levels=None).packed
    fold = folds(packed.queries.triple, 0)
    seen = spy_on_searches(monkeypatch)
    for f in range(fold.max() + 1):
        fits, sums = [], []
        for version in (packed, spoiled(packed, fold == f)):
            for record in seen.values():
                record.clear()
            sums.append(held_out_sums(version, group_of(packed), fold == f, name, (0.0, 5.0, math.inf)))
            fits.append({key: list(value) for key, value in seen.items()})
        assert fits[0] == fits[1]
        assert not np.array_equal(sums[0], sums[1])
        held_out = set(np.flatnonzero(fold == f).tolist())
        fitted_on = {q for members in fits[0]["members"] for index in members for q in index}
        assert fitted_on == set(range(16)) - held_out
        assert all(set(queries) == held_out for queries, _ in fits[0]["ranked"])
        assert {packed.queries.triple[q] for q in fitted_on}.isdisjoint(packed.queries.triple[q] for q in held_out)


@pytest.mark.kernels
def test_held_out_sums_are_those_of_the_shrunk_weights(monkeypatch):
    case = random_case(5, n_queries=14, n_candidates=12)
    # Group 1 occurs among the held-out queries alone, groups 0 and 2 nowhere.
    held_out = folds(case.packed.queries.triple, 0) == 0
    packed, group = case.packed, np.where(held_out & (group_of(case.packed) == 0), 1, group_of(case.packed) + 3)
    assert (group == 1).any()
    seen = spy_on_searches(monkeypatch)
    kappas = (0.0, 4.0, math.inf)
    sums = held_out_sums(packed, group, held_out, "rank", kappas)
    ((common, *own),) = seen["weights"]
    searched = sorted({int(g) for g in group[~held_out]})
    for kappa, total, (queries, table) in zip(kappas, sums, seen["ranked"], strict=True):
        exact = 0
        for q in queries:
            g = int(group[q])
            if g not in searched or math.isinf(kappa):
                assert table[g] == common
            elif kappa == 0:
                assert table[g] == own[searched.index(g)]
            else:
                n = int((group[~held_out] == g).sum())
                mixed = oracles.shrunk(own[searched.index(g)], common, n, kappa, seen["scales"][0])
                assert table[g] == pytest.approx([w / max(mixed) * WEIGHT_LIMIT for w in mixed], abs=0.51)
            exact += 1 / oracles.realistic_rank(case, q, table[g], "rank")
        assert total == pytest.approx(float(exact), rel=1e-12)


# --- the choice -----------------------------------------------------------------------------------------------------


def test_the_choice_is_the_best_cross_validated_score_and_can_be_repeated():
    packed = random_case(7, n_queries=24, n_candidates=15).packed
    inputs, kappas = NAMES, (0.0, 10.0, math.inf)
    progress = Recorder()
    choice = choose(packed, inputs, kappas, seed=3, progress=progress)
    assert list(choice.scores) == list(inputs)
    assert all(list(row) == list(kappas) for row in choice.scores.values())
    flat = {(name, kappa): score for name, row in choice.scores.items() for kappa, score in row.items()}
    assert all(0 < score <= 1 for score in flat.values())
    # Of equals the earlier input, then the larger κ.
    best = [at for at, score in flat.items() if score == max(flat.values())]
    assert (choice.input.name, choice.kappa) == max((at for at in best if at[0] == best[0][0]), key=lambda at: at[1])
    assert [(d, t, sum(done)) for d, t, done in progress.tasks] == [("cross-validation", 25, 25)]
    assert choose(packed, inputs, kappas, seed=3, jobs=3) == choice


@pytest.mark.kernels
def test_scores_are_means_of_held_out_sums_over_all_queries():
    packed = random_case(8, n_queries=12, n_candidates=10).packed
    group, fold = group_of(packed), folds(packed.queries.triple, 1)
    choice = choose(packed, ["rank"], (0.0, math.inf), seed=1)
    sums = sum(held_out_sums(packed, group, fold == f, "rank", (0.0, math.inf)) for f in range(fold.max() + 1))
    assert list(choice.scores["rank"].values()) == pytest.approx((sums / 12).tolist(), rel=1e-12)


def test_equal_scores_go_to_the_first_input_and_the_largest_strength():
    """One model: every input and every strength gives the same ranks."""
    packed = random_case(1, n_models=1, n_queries=12).packed
    choice = choose(packed, ["sqrt", "rank"], (3.0, 10.0, math.inf))
    assert (choice.input.name, choice.kappa) == ("sqrt", math.inf)
    assert len({score for row in choice.scores.values() for score in row.values()}) == 1


def test_infinite_shrinkage_alone_searches_no_group(monkeypatch):
    packed = random_case(2, n_queries=12).packed
    seen = spy_on_searches(monkeypatch)
    choice = choose(packed, ["rank", "log"], (math.inf,))
    assert all(len(weights) == 1 for weights in seen["weights"])
    assert choice.kappa == math.inf


def test_a_single_triple_leaves_nothing_to_hold_out():
    packed = random_case(2, n_queries=2).packed
    choice = choose(packed, ["log", "rank"], (3.0, 10.0))
    assert (choice.input.name, choice.kappa, choice.scores) == ("log", 10.0, {})


def test_scores_that_differ_by_rounding_alone_are_equal(monkeypatch):
    reciprocal = np.array([[1.0], [1.0 - 1e-15], [1.0 - 1e-9]]) * np.ones(4)
    monkeypatch.setattr(regularisation, "cross_validate", lambda *_: reciprocal)
    packed = random_case(2, n_queries=4).packed
    choice = choose(packed, ["rank"], (0.0, 10.0, math.inf))
    assert choice.kappa == 10.0


def test_two_triples_make_two_folds():
    packed = random_case(2, n_queries=4).packed
    choice = choose(packed, ["rank"], (0.0, 10.0))
    assert choice.scores.keys() == {"rank"}


def test_a_single_option_needs_no_trying(monkeypatch):
    monkeypatch.setattr(Sweep, "search_groups", None)
    packed = random_case(2, n_queries=12).packed
    choice = choose(packed, ["rank"], (10.0,))
    assert (choice.input.name, choice.kappa, choice.scores) == ("rank", 10.0, {})


@pytest.mark.kernels
def test_wide_views_of_some_queries_do_not_depend_on_the_others():
    """Thinning happens query by query, so that a view made once for all folds leaks nothing."""
    packed = random_case(3, n_queries=6, n_candidates=60, levels=None).packed
    some = np.array([1, 4])
    together = Pairs.gather(packed, ContestedViews(packed).wide, some, INPUTS["rank"])
    apart = packed.select_queries(some)
    alone = Pairs.gather(apart, ContestedViews(apart).wide, np.arange(2), INPUTS["rank"])
    for field in ("advantage", "offsets", "floor", "multiplicity"):
        assert np.array_equal(getattr(together, field), getattr(alone, field))
