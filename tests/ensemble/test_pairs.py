"""Pairs: every contested candidate, or the best of them and a fair sample of the rest."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.ensemble.pairs import Pairs
from tests import strategies
from tests.ensemble import oracles
from tests.ensemble.packs import NAMES, cases, pack, random_case

pytestmark = pytest.mark.kernels
few = settings(max_examples=40, deadline=None)


def advantages(packed, query, name):
    """Return the advantage tuples of all contested candidates of a query, in order."""
    rows = []
    for k in range(packed.offsets[query], packed.offsets[query + 1]):
        if name == "score":
            rows.append(tuple(int(gap) for gap in packed.gaps[:, k]))
        else:
            table = oracles.costs(name)
            rows.append(
                tuple(
                    table[int(packed.answer[i, query])] - table[int(packed.contested[i, k])]
                    for i in range(packed.n_models)
                )
            )
    return rows


def pairs_of(pairs, at):
    """Return the advantage tuples and multiplicities of the query at position ``at`` of the pairs."""
    mine = slice(pairs.offsets[at], pairs.offsets[at + 1])
    return [tuple(row) for row in pairs.advantage[:, mine].T.tolist()], pairs.multiplicity[mine].tolist()


@few
@given(st.data(), st.sampled_from(NAMES))
def test_lossless_pairs_are_everything(data, name):
    case = data.draw(cases())
    packed = case.packed
    queries = np.array(data.draw(st.lists(st.integers(0, packed.n_queries - 1), max_size=6)), dtype=np.int64)
    pairs = Pairs.lossless(packed, queries, name)
    assert not pairs.reduced
    assert (pairs.n_models, pairs.n_queries, pairs.n_pairs) == (packed.n_models, len(queries), pairs.advantage.shape[1])
    assert pairs.advantage.dtype == np.int32
    assert pairs.multiplicity.tolist() == [1] * pairs.n_pairs
    assert pairs.floor.tolist() == [2 * (1 + int(packed.always_ahead[q])) for q in queries]
    for at, q in enumerate(queries):
        assert pairs_of(pairs, at)[0] == advantages(packed, q, name)


@few
@given(st.data(), st.sampled_from(NAMES))
def test_lossless_pairs_value_weights_like_the_dense_oracle(data, name):
    case = data.draw(cases())
    weights = data.draw(strategies.weights(case.packed.n_models))
    pairs = Pairs.lossless(case.packed, case.everything, name)
    assert oracles.value_of_pairs(pairs, weights) == oracles.reciprocal_sum(case, case.everything, weights, name)


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(NAMES), st.integers(1, 4), st.integers(1, 3))
def test_reduced_pairs_keep_the_best_and_a_sample_that_stands_for_the_rest(data, name, keep, sample):
    case = data.draw(cases())
    packed = case.packed
    queries = np.array(data.draw(st.lists(st.integers(0, packed.n_queries - 1), max_size=5)), dtype=np.int64)
    pairs = Pairs.reduce(packed, queries, name, keep=keep, sample=sample)
    counts = [int(packed.offsets[q + 1] - packed.offsets[q]) for q in queries]
    assert pairs.reduced == any(count > keep + sample for count in counts)
    for at, (q, count) in enumerate(zip(queries, counts, strict=True)):
        found, multiplicity = pairs_of(pairs, at)
        assert len(found) <= keep + sample
        assert sum(multiplicity) == count
        everything = advantages(packed, q, name)
        if count <= keep + sample:
            assert (found, multiplicity) == (everything, [1] * count)
            continue
        # The best by best rank in any model, the first of equals, and every s-th of the others in order.
        best = packed.contested[:, packed.offsets[q] : packed.offsets[q + 1]].min(axis=0).tolist()
        kept = set(sorted(range(count), key=lambda k: (best[k], k))[:keep])
        rest = [k for k in range(count) if k not in kept]
        stride = -(-len(rest) // sample)
        stands_for = dict.fromkeys(kept, 1) | {rest[s]: len(rest[s : s + stride]) for s in range(0, len(rest), stride)}
        assert found == [everything[k] for k in sorted(stands_for)]
        assert multiplicity == [stands_for[k] for k in sorted(stands_for)]


def test_thinned_and_whole_queries_side_by_side():
    rng = np.random.default_rng(2)
    values = [rng.integers(0, 30, (6, 40)) / 1.0 for _ in range(3)]
    for model in values:
        model[[1, 4], 4:] = -1.0  # few candidates of these queries are contested
    case = pack(values, [0] * 6)
    queries = np.array([4, 0, 1, 5, 0])
    for name in NAMES:
        pairs = Pairs.reduce(case.packed, queries, name, keep=3, sample=2)
        assert np.diff(pairs.offsets).tolist() == [min(5, len(advantages(case.packed, q, name))) for q in queries]
        for at, q in enumerate(queries):
            whole = advantages(case.packed, q, name)
            found, multiplicity = pairs_of(pairs, at)
            assert set(found) <= set(whole)
            assert sum(multiplicity) == len(whole)
        assert pairs_of(pairs, 1) == pairs_of(pairs, 4)


def test_no_contested_candidates_and_no_queries():
    packed = pack([np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 3.0]])] * 2, [0, 0]).packed
    for name in NAMES:
        for pairs in (
            Pairs.lossless(packed, np.arange(2), name),
            Pairs.reduce(packed, np.arange(2), name, keep=1, sample=1),
        ):
            assert (pairs.n_pairs, pairs.reduced, pairs.floor.tolist()) == (0, False, [2, 6])
    none = Pairs.lossless(packed, np.array([], dtype=np.int64), "rank")
    assert (none.n_queries, none.n_pairs, none.offsets.tolist()) == (0, 0, [0])


def test_wide_ranks_are_thinned_like_narrow_ones():
    case = random_case(5, n_queries=4, n_candidates=30, levels=None)
    narrow = Pairs.reduce(case.packed, np.arange(4), "log", keep=2, sample=2)
    wide_pack = replace(
        case.packed, answer=case.packed.answer.astype(np.uint32), contested=case.packed.contested.astype(np.uint32)
    )
    wide = Pairs.reduce(wide_pack, np.arange(4), "log", keep=2, sample=2)
    assert narrow.reduced
    assert np.array_equal(narrow.advantage, wide.advantage)
    assert np.array_equal(narrow.multiplicity, wide.multiplicity)
