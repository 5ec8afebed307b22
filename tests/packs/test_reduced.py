"""Reduced ranks: everything comes back where nothing is left out, and what is left out is stood for."""

import json
from zipfile import ZIP_BZIP2, ZIP_LZMA, ZipFile

import numpy as np
import pytest

from relens.ensemble.grid import uniform
from relens.ensemble.objective import answer_ranks
from relens.errors import InputError, RanksError
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


def rewritten(folder, **changes):
    """Write reduced ranks with other arrays of the split valid, or another header, and return the file."""
    file = folder / "ranks.npz"
    write_reduced({"valid": scored(n_queries=20)}, file, Reduction(2, 2))
    with np.load(file, allow_pickle=False) as opened:
        arrays = dict(opened)
    for name, change in changes.items():
        name = name if name == "header" else f"valid.{name}"
        arrays[name] = change(arrays[name])
    np.savez_compressed(file, **arrays)
    return file


def first(value):
    def change(array):
        array = array.copy()
        array[0] = value
        return array

    return change


def header(**changes):
    def change(array):
        return np.frombuffer(json.dumps({**json.loads(array.tobytes()), **changes}).encode(), np.uint8)

    return change


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"multiplicity": first(0)}, "multiplicities, or these are below 1"),
        ({"multiplicity": lambda array: array[:-1]}, "counts of queries do not add up"),
        ({"multiplicity": lambda array: array.astype(np.int64)}, "counts of int64 and multiplicities of int64"),
        ({"counts": first(-1)}, "counts of queries do not add up"),
        ({"counts": first(2**62)}, "counts of queries do not add up"),
        ({"counts": lambda array: array.astype(np.float64)}, "counts of float64"),
        ({"counts": lambda array: array[:, None]}, "counts of int64"),
        ({"contested": lambda array: array[:, :, :-1]}, r"a table has the shape \(2, 3, .*\) of uint8 for"),
        ({"contested": lambda array: array.astype(np.int16)}, "a table has the shape .* of int16"),
        ({"gaps": lambda array: array[:, :-1]}, "a table has the shape"),
        ({"queries": lambda array: array.astype(np.float64)}, "queries of float64"),
        ({"queries": lambda array: array[:4]}, "not a file of reduced ranks, or damaged"),
        ({"header": header(splits={"../valid": {}})}, "ranks of '../valid'"),
        ({"header": header(splits=[])}, "not a file of reduced ranks, or damaged"),
        ({"header": lambda array: np.frombuffer(b'{"a":' * 10**5, np.uint8)}, "nested too deep"),
        ({"header": lambda array: np.frombuffer(b"[]", np.uint8)}, "found a header of type list"),
    ],
)
def test_tables_that_do_not_fit_each_other_are_refused(tmp_path, changes, message):
    """Such files once ended in tracebacks."""
    with pytest.raises(RanksError, match=rf"ranks\.npz.*({message})"):
        read_reduced(rewritten(tmp_path, **changes))


def test_small_files_that_ask_for_gigabytes_are_refused(tmp_path, monkeypatch):
    """Zeros that unpack to gigabytes, a shape of a terabyte, and a candidate that represents two thousand million."""
    refusal = r"ranks\.npz has [\d,]+ bytes and unpacks to more than 16,777,216, .* set RELENS_MAX_UNPACKED"
    with pytest.raises(InputError, match=refusal):
        read_reduced(rewritten(tmp_path, contested=lambda array: np.zeros(2**25, np.uint8)))
    with pytest.raises(InputError, match=refusal):
        read_reduced(rewritten(tmp_path, multiplicity=first(2**31 - 1)))
    monkeypatch.setenv("RELENS_MAX_UNPACKED", str(2**26))
    with pytest.raises(RanksError, match=r"a table has the shape \(33554432,\)"):
        read_reduced(rewritten(tmp_path, contested=lambda array: np.zeros(2**25, np.uint8)))


def test_a_shape_that_its_bytes_cannot_hold_is_refused(tmp_path):
    file = rewritten(tmp_path)
    text = b"{'descr': '<u2', 'fortran_order': False, 'shape': (1099511627776,)}"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    with ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(file, "w") as archive:
        for name, old in members.items():
            archive.writestr(name, content if name == "valid.answer.npy" else old)
    with pytest.raises(RanksError, match=r"77 bytes cannot hold the shape \(1099511627776,\) of uint16"):
        read_reduced(file)


@pytest.mark.parametrize("method", [ZIP_BZIP2, ZIP_LZMA])
def test_other_compressions_are_refused(tmp_path, method):
    with ZipFile(tmp_path / "ranks.npz", "w", method) as archive:
        archive.writestr("header.npy", b"")
    with pytest.raises(RanksError, match=r"header\.npy is compressed in another way, or locked"):
        read_reduced(tmp_path / "ranks.npz")


def test_broken_streams_are_refused(tmp_path):
    file = rewritten(tmp_path)
    content = file.read_bytes()
    refused = 0
    for at in range(0, len(content), 7):
        file.write_bytes(content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :])
        try:
            read_reduced(file)
        except InputError:
            refused += 1
    assert refused > len(content) / 14  # many bytes of an archive say nothing
