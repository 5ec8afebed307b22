"""Packed stores: what is written is what is read, whole or not at all."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from relens.errors import InputError, RanksError, RelensError
from relens.files import json_text
from relens.packs import store
from relens.packs.checks import check_ranges
from relens.packs.packing import pack_ranks, pack_scores
from relens.packs.store import PackWriter, assemble, check_pair, load_pack, save_pack
from relens.records import Provenance
from tests import strategies
from tests.random_packs import assert_same, changed, header_of, scored


@pytest.mark.kernels
@settings(max_examples=25, deadline=None)
@given(block=strategies.score_blocks())
def test_a_loaded_store_is_the_saved_one(tmp_path_factory, block):
    path = tmp_path_factory.mktemp("stores") / "valid"
    models = tuple("abcd"[: len(block.values)])
    packed = assemble(
        header_of(len(block.answer_column), models), [pack_scores(block.values, block.answer_column, block.known)]
    )
    save_pack(packed, path)
    assert_same(load_pack(path), packed)


@pytest.mark.kernels
def test_gaps_scales_and_cardinalities_travel(tmp_path):
    save_pack(scored(), tmp_path / "s")
    assert_same(load_pack(tmp_path / "s"), scored())
    assert store.n_bytes(tmp_path / "s") > 0


@pytest.mark.kernels
@pytest.mark.parametrize("held", [0, 40, 2**28])
def test_blocks_written_one_by_one_equal_blocks_joined_in_memory(tmp_path, monkeypatch, held):
    monkeypatch.setattr(store, "_HELD_BYTES", held)
    rng = np.random.default_rng(1)
    ranks, columns = [rng.integers(1, 8, (6, 7)) for _ in range(3)], rng.integers(0, 7, 6)
    header = header_of(6, ("a", "b", "c"))
    blocks = [pack_ranks([m[a:b] for m in ranks], columns[a:b]) for a, b in [(0, 1), (1, 4), (4, 6)]]
    with PackWriter.open(tmp_path / "s", header, max_candidates=7) as writer:
        for block in blocks:
            writer.append(block)
    assert_same(load_pack(tmp_path / "s"), assemble(header, blocks))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s"]
    assert not list((tmp_path / "s").glob("*.part"))


@pytest.mark.kernels
def test_arrays_are_read_only_in_memory_and_from_disk(tmp_path):
    save_pack(scored(), tmp_path / "s")
    for packed in (scored(), load_pack(tmp_path / "s")):
        with pytest.raises(ValueError, match="read-only"):
            packed.contested[0, 0] = 1


def test_ranks_get_wider_with_the_number_of_candidates(tmp_path):
    wide = np.array([[40_000, *range(2, 40_001)]])
    with PackWriter.open(tmp_path / "s", header_of(1, ("a",)), max_candidates=40_000) as writer:
        writer.append(pack_ranks([wide], np.array([0])))
    packed = load_pack(tmp_path / "s")
    assert packed.contested.dtype == np.uint32
    assert packed.contested.tolist() == [[80_000]]


def test_ranks_become_narrow_again_where_the_filter_leaves_few_candidates(tmp_path):
    scores, known = np.zeros((1, 40_000)), (np.array([0, 39_990]), np.arange(39_990))
    packed = assemble(header_of(1, ("a",)), [pack_scores([scores], np.array([39_999]), known)])
    save_pack(packed, tmp_path / "s")
    assert load_pack(tmp_path / "s").contested.dtype == np.uint16
    assert load_pack(tmp_path / "s").contested.tolist() == packed.contested.tolist()


def write_then_fail(path, failure) -> None:
    with PackWriter.open(path, header_of(2, ("a",)), 3) as writer:
        writer.append(pack_ranks([np.array([[1, 2, 3]])], np.array([0])))
        raise failure


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RanksError("bad row"), OSError(28, "No space left")])
def test_an_interrupted_write_leaves_the_old_store(tmp_path, failure):
    save_pack(scored(), tmp_path / "s")
    with pytest.raises(RelensError if isinstance(failure, OSError) else type(failure)):
        write_then_fail(tmp_path / "s", failure)
    assert_same(load_pack(tmp_path / "s"), scored())
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_store_replaces_an_older_one(tmp_path):
    save_pack(scored(0), tmp_path / "s")
    save_pack(scored(1), tmp_path / "s")
    assert_same(load_pack(tmp_path / "s"), scored(1))


def test_missing_queries_are_noticed_and_nothing_is_written(tmp_path):
    with (
        pytest.raises(RanksError, match="packed 1 queries, expected 2"),
        PackWriter.open(tmp_path / "s", header_of(2, ("a",)), 3) as writer,
    ):
        writer.append(pack_ranks([np.array([[1, 2, 3]])], np.array([0])))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("header", "candidates", "message"),
    [
        (header_of(1, ("a",)), 2, "a query has 3 candidates, the store was opened for up to 2"),
        (header_of(1, ("a", "b")), 3, "a block has 1 rows of ranks, expected 2: one per model"),
        (header_of(1, ("a",), gap_scales=np.ones(1)), 3, "a block and its header differ in score gaps"),
    ],
)
def test_blocks_that_do_not_fit_the_store_are_refused(tmp_path, header, candidates, message):
    with pytest.raises(RanksError, match=message), PackWriter.open(tmp_path / "s", header, candidates) as writer:
        writer.append(pack_ranks([np.array([[1, 2, 3]])], np.array([0])))
    assert not list(tmp_path.iterdir())


def edit(path, **changes) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["checksum"]
    (path / "manifest.json").write_text(json_text({**manifest, **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: (s / "manifest.json").unlink(), "is not a packed store: it has no manifest.json"),
        (lambda s: (s / "manifest.json").write_text("{"), "is not readable JSON"),
        (lambda s: edit(s, kind="relens run"), "is not a 'relens packed ranks' record: its kind is 'relens run'"),
        (
            lambda s: edit(s, format=2, relens="9.1"),
            "has format 2, this relens reads format 1. Use relens 9.1, which wrote it",
        ),
        (lambda s: edit(s, tie_rule="optimistic"), "packed with the tie rule 'optimistic', expected 'mean'"),
        (lambda s: edit(s, n_queries="many"), "manifest.json is damaged"),
        (lambda s: edit(s, rank_dtype="snake"), "manifest.json is damaged"),
        (lambda s: edit(s, rank_dtype="O"), "manifest.json is damaged .*ranks of type 'O'"),
        (lambda s: edit(s, n_queries=-1), "manifest.json is damaged .*-1 queries"),
        (lambda s: edit(s, n_contested=0.5), "manifest.json is damaged .*0.5 contested candidates"),
        (lambda s: edit(s, gap_scales=[10**400]), "manifest.json is damaged"),
        (lambda s: edit(s, dataset=7), "manifest.json is damaged .*found 7, expected a text"),
        (lambda s: edit(s, n_contested=1), "contradicts itself"),
        (lambda s: edit(s, queries_fingerprint="0"), "contradicts itself or the queries beside it"),
        (lambda s: (s / "queries.bin").write_bytes(b""), "queries.bin is damaged: it has 0 bytes, expected 100"),
        (lambda s: (s / "answer.bin").unlink(), "is incomplete: answer.bin is missing"),
        (lambda s: (s / "gaps.bin").write_bytes(b"123"), "gaps.bin is damaged: it has 3 bytes, expected"),
        (
            lambda s: (s / "offsets.bin").write_bytes(b"\x07" * 48),
            "offsets.bin is damaged: its checksum is",
        ),
    ],
)
def test_damaged_stores_are_refused_by_name(tmp_path, damage, message):
    save_pack(scored(), tmp_path / "s")
    damage(tmp_path / "s")
    with pytest.raises(InputError, match=message):
        load_pack(tmp_path / "s")


def refusal(path) -> str:
    """Return the error that a store raises, or an empty text."""
    try:
        load_pack(path)
    except InputError as error:
        return str(error)
    return ""


def test_no_flipped_bit_goes_unnoticed(tmp_path):
    packed = scored()
    save_pack(packed, tmp_path / "s")
    draws, contents = np.random.default_rng(0), {file: file.read_bytes() for file in (tmp_path / "s").iterdir()}
    refused = 0
    for file, content in contents.items():
        for bit in draws.integers(8 * len(content), size=60).tolist():
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            file.write_bytes(flipped)
            problem = refusal(tmp_path / "s")
            assert file.name in problem or (file.name == "manifest.json" and not problem)
            if problem:
                refused += 1
            else:  # a blank or the key of the checksum has changed: the content is the same
                assert_same(load_pack(tmp_path / "s"), packed)
        file.write_bytes(content)
    assert refused > 60 * (len(contents) - 1)


def test_stores_without_checksums_are_read(tmp_path):
    save_pack(scored(), tmp_path / "s")
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    del manifest["checksum"]
    for entry in manifest["arrays"].values():
        del entry["checksum"]
    (tmp_path / "s" / "manifest.json").write_text(json.dumps(manifest))
    assert_same(load_pack(tmp_path / "s"), scored())


def spoilt(name, value, at=(0,)):
    """Return packed ranks with one number of an array replaced."""
    packed = scored()
    array = getattr(packed.arrays, name).astype(np.int64)
    array[at if array.ndim > 1 else at[-1]] = value
    dtype = np.uint32 if name in ("answer", "contested") else getattr(packed.arrays, name).dtype
    return replace(packed, arrays=replace(packed.arrays, **{name: array.astype(dtype)}))


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (spoilt("contested", 2**31, (1, 0)), "doubled rank of a candidate of query 0 is below 2, or above"),
        (spoilt("contested", 0, (0, 0)), "doubled rank of a candidate of query 0 is below 2"),
        (spoilt("answer", 1, (0, 1)), "doubled rank of an answer is below 2"),
        (spoilt("answer", 10**6, (0, 1)), "doubled rank of an answer is below 2, or beyond"),
        (spoilt("n_candidates", 0), "a query has 0 candidates"),
        (spoilt("always_ahead", -1), "more candidates ahead or contested than candidates"),
        (spoilt("always_ahead", 10**6), "more candidates ahead or contested than candidates"),
        (spoilt("offsets", 10**6, (1,)), "offsets of . queries do not ascend"),
        (changed(scored(), gap_scales=np.array([1.0, np.nan, 1.0])), "scales of score gaps are .*nan"),
        (spoilt("n_candidates", 2**24 + 1), "a query has 16,777,217 candidates, expected at most 16,777,216"),
        (spoilt("gaps", 2**26 + 1, (2, 0)), "a score gap has the size 67,108,865, expected at most 67,108,864"),
        (spoilt("gaps", -(2**31), (2, 0)), "a score gap has the size 2,147,483,648"),
        (changed(scored(), offsets=np.array([0, 2**62, -(2**63) + 9, 1, 2, 3])), "offsets of 5 queries do not ascend"),
        (changed(scored(), offsets=scored().offsets.astype(np.float64)), "offsets of 5 queries do not ascend"),
        (changed(scored(), answer=scored().answer.astype(np.int64)), "answer has .* int64, expected .3, 5. of uint16"),
        (changed(scored(), gap_scales=None), "score gaps without their scales"),
        (changed(scored(), models=("a", "b", "a")), "the models are a, b, a, expected at least one, and each once"),
        (changed(scored(), models=("a", "b", 3)), "one of the models is 3, expected a text"),
        (changed(scored(), cardinalities=("1-N",)), "there are classes of 1 relations, expected 2 or none"),
        (
            changed(scored(), relations=("likes",), cardinalities=()),
            "the relation of a query is 1, expected 0 to 0",
        ),
        (
            changed(scored(), queries=replace(scored().queries, triple=np.zeros(4, np.int32))),
            r"the triple of queries has the shape .4,. and the type int32, expected .5,. of int32",
        ),
    ],
)
@pytest.mark.kernels
def test_numbers_that_no_ranks_can_have_are_refused(packed, message):
    with pytest.raises(RanksError, match=f"here holds impossible numbers: .*{message}.*Pack it again."):
        check_ranges(packed, "here", "Pack it again.")


def test_a_pair_of_splits_of_one_experiment_is_accepted():
    valid, test = scored(0), scored(1)
    check_pair(valid, changed(test, provenance=replace(test.provenance, split="test")))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ("a", "b", "d")}, "models of valid and test differ .c only in valid; d only in test."),
        ({"models": ("a", "c", "b")}, "valid has a, b, c, test has a, c, b"),
        ({"relations": ("likes",)}, "numbers of relations of valid and test differ .2 and 1."),
        ({"relations": ("likes", "hates")}, "relation labels of valid and test differ"),
        ({"provenance": Provenance("toy", "beef", "test")}, "data sets of valid and test differ .f00d and beef."),
        ({"provenance": Provenance("toy", "f00d", "test", candidates="sampled")}, "candidates.*all and sampled"),
    ],
)
def test_a_pair_that_does_not_belong_together_is_refused(changes, message):
    with pytest.raises(RanksError, match=message):
        check_pair(scored(), changed(scored(), **changes))


def test_the_digest_covers_every_array_and_every_fact(tmp_path):
    packed = scored()
    others = {
        name: changed(packed, **{name: np.where(np.arange(array.size).reshape(array.shape) == 0, array + 1, array)})
        for name, array in vars(packed.arrays).items()
    }
    others |= {
        "models": changed(packed, models=("a", "b", "d")),
        "relations": changed(packed, relations=("likes", "ne")),
        "cardinalities": changed(packed, cardinalities=("1-1", "N-N")),
        "provenance": changed(packed, provenance=replace(packed.provenance, candidates="sampled")),
        "gap_scales": changed(packed, gap_scales=packed.gap_scales * 2),
        "queries": changed(packed, queries=replace(packed.queries, triple=packed.queries.triple + 1)),
        "no gaps": packed.without_gaps(),
    }
    digests = {name: other.digest for name, other in others.items()}
    assert len({packed.digest, *digests.values()}) == 1 + len(others), digests


def test_the_digest_is_the_same_in_memory_and_on_disk(tmp_path):
    packed = scored()
    save_pack(packed, tmp_path / "store")
    loaded = load_pack(tmp_path / "store")
    assert set(loaded.checksums) == {"queries", *vars(packed.arrays)}
    assert loaded.digest == packed.digest == loaded.select_models(packed.models).digest
    assert loaded.digest_of_answers == packed.digest_of_answers


def test_ranks_are_named_by_their_digest_and_by_that_of_an_older_relens():
    packed, other = scored(), scored(1)
    assert packed.is_named(packed.digest)
    assert packed.is_named(packed.digest_of_answers)
    assert not other.is_named(packed.digest)
    assert not other.is_named(packed.digest_of_answers)
    assert not packed.is_named("")


def test_the_digest_of_an_older_relens_is_that_of_its_runs():
    """The fixture was written by a relens whose digests left contested candidates out."""
    run = Path(__file__).parents[1] / "fixtures" / "run-format-1" / "run"
    weights = json.loads((run / "weights" / "dsc.json").read_text())
    assert load_pack(run / "ranks" / "valid").digest_of_answers == weights["fitted_on"]
