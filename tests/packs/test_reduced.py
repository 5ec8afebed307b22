"""Reduced ranks: everything comes back where nothing is left out, and what is left out is stood for."""

import numpy as np
import pytest

from relens.ensemble.grid import uniform
from relens.ensemble.objective import answer_ranks
from relens.errors import RanksError
from relens.packs.reduced import _rounded, _unrounded, read_reduced, write_reduced
from relens.packs.simulation import Simulation
from relens.packs.thinning import Reduction
from tests.random_packs import assert_same, changed, scored

SIMULATION = Simulation(models=("a", "b", "c"), triples_per_relation=(40, 20), n_entities=400, level=(2.0, 1.0))


def through_file(packed, tmp_path, reduction):
    write_reduced({"valid": packed}, tmp_path / "ranks.npz", reduction, jobs=2)
    return read_reduced(tmp_path / "ranks.npz")["valid"]


@pytest.mark.parametrize("with_gaps", [True, False])
def test_what_loses_nothing_comes_back(tmp_path, with_gaps):
    packed = scored(n_queries=20)
    # Gaps of at most eight bits are not rounded.
    packed = changed(packed, gaps=np.clip(packed.gaps, -256, 256)) if with_gaps else changed(
        packed, gaps=None, gap_scales=None
    )  # fmt: skip
    found = through_file(packed, tmp_path, Reduction(100, 10))
    assert found.provenance.candidates == "all, reduced to 100+10 contested"
    assert_same(changed(found, provenance=packed.provenance), packed)


def test_kept_candidates_are_those_of_the_pack_and_the_number_stays(tmp_path):
    packed = SIMULATION.packed("valid")
    found = through_file(packed, tmp_path, Reduction(8, 4))
    np.testing.assert_array_equal(found.offsets, packed.offsets)
    for q in range(packed.n_queries):
        part = slice(packed.offsets[q], packed.offsets[q + 1])
        mine, all_ = found.contested[:, part].T.tolist(), packed.contested[:, part].T.tolist()
        assert {*map(tuple, mine)} <= {*map(tuple, all_)}
        best = sorted(all_, key=min)[:8]
        assert sorted(map(min, mine))[: len(best)] == [min(candidate) for candidate in best]


def test_reciprocal_ranks_are_close_and_exact_where_the_answer_is_near_the_top(tmp_path):
    packed = SIMULATION.packed("valid")
    found = through_file(packed, tmp_path, Reduction(16, 8))
    true, close = (answer_ranks(pack, uniform(3)).realistic for pack in (packed, found))
    assert np.abs(1 / true - 1 / close).max() < 0.05
    assert np.mean(1 / true) == pytest.approx(np.mean(1 / close), abs=0.003)
    assert (true != close).any()


def test_rounded_gaps_keep_sign_and_eight_bits():
    gaps = np.concatenate([np.arange(-300, 301), [2**26, -(2**26), 12_345_678, -98_765]]).astype(np.int32)
    found = _unrounded(_rounded(gaps))
    np.testing.assert_array_equal(np.sign(found), np.sign(gaps))
    np.testing.assert_allclose(found, gaps, rtol=2**-8)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "ranks.npz"
    for content in (b"", b"no archive", b"PK\x03\x04broken"):
        path.write_bytes(content)
        with pytest.raises(RanksError, match=r"ranks\.npz is not a file of reduced ranks.*no \.npz file"):
            read_reduced(path)
    np.savez(path, something=np.arange(3))
    with pytest.raises(RanksError, match="not a file of reduced ranks"):
        read_reduced(path)
    np.savez(path, header=np.frombuffer(b'{"kind": "other", "format": 1, "tie_rule": "mean"}', np.uint8))
    with pytest.raises(RanksError, match=r"ranks\.npz is not a 'relens reduced ranks' record: its kind is 'other'"):
        read_reduced(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("contested", 255, "doubled rank of a candidate of query 0 is below 2, or above"),
        ("n_candidates", 0, "a query has 0 candidates"),
        ("n_candidates", 1, "more candidates ahead or contested than candidates"),
        ("always_ahead", 10_000, "more candidates ahead or contested than candidates"),
        ("answer", 1, "the doubled rank of an answer is below 2"),
        ("queries", -1, "the relation of a query is -1"),
    ],
)
def test_numbers_that_no_ranks_can_have_are_refused(tmp_path, name, value, message):
    """Such a file once ended a search with a segmentation fault."""
    file = tmp_path / "ranks.npz"
    write_reduced({"valid": scored(n_queries=20)}, file)
    with np.load(file, allow_pickle=False) as opened:
        arrays = dict(opened)
    array = arrays[f"valid.{name}"]
    # The last plane of the contested ranks holds their highest bytes; the second row of the queries is their relations.
    place = {"contested": (-1, 0, 0), "queries": (1, 0), "answer": (0, 0)}.get(name, (0,))
    array[place] = value
    np.savez_compressed(file, **arrays)
    with pytest.raises(RanksError, match=f"ranks.npz, split valid, holds impossible numbers: .*{message}"):
        read_reduced(file)
