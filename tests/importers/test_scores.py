"""Score matrices with a query file, with files written by plain numpy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relens.errors import DatasetError, RanksError
from relens.importers.arrays import ArrayOptions, read_arrays, read_query_file, relation_vocabulary
from relens.importers.dense import pack_dense
from relens.importers.layouts.scores import read_scores
from relens.packs.pack import PackedRanks
from relens.packs.packing import fit_gap_scales
from tests import oracles
from tests.random_packs import changed
from tests.score_files import TEST, TRAIN, VALID, E, asked, dataset, write_scores


def assert_packed(packed: PackedRanks, arrays: dict, split: str, order: str, filtered: bool) -> None:
    """Compare a pack with the oracle on the raw arrays."""
    triples = TRAIN + VALID + TEST
    for q, (anchor, relation, direction, answer) in enumerate(asked(VALID if split == "valid" else TEST)):
        if direction == "tail":
            known = {order.index(t) for h, r, t in triples if (h, r) == (anchor, relation)}
        else:
            known = {order.index(h) for h, r, t in triples if (t, r) == (anchor, relation)}
        column = order.index(answer)
        by_model = [
            oracles.doubled_ranks(arrays[split, model][q].tolist(), column, known if filtered else ())
            for model in packed.models
        ]
        always_ahead, contested = oracles.packed_row(by_model, column)
        begin, end = packed.offsets[q : q + 2]
        assert packed.answer[:, q].tolist() == [ranks[column] for ranks in by_model]
        assert packed.always_ahead[q] == always_ahead
        assert [tuple(row) for row in packed.contested[:, begin:end].T.tolist()] == contested
        assert packed.n_candidates[q] == len(by_model[0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("order", ["abcdef", "fbdace"])
def test_scores_are_filtered_by_the_data_set_whatever_the_column_order(tmp_path, order, dtype):
    arrays = write_scores(tmp_path, order, dtype)
    data = dataset()
    dense = read_scores(tmp_path, options=ArrayOptions(data))
    for split in ("valid", "test"):
        packed = pack_dense(dense[split])
        assert_packed(packed, arrays, split, order, filtered=True)
        assert packed.provenance.filter_splits == ("train", "valid", "test")
        assert packed.provenance.fingerprint == data.fingerprint
        assert [data.entities.labels[e] for e in packed.queries.answer] == [q[3] for q in asked(data_split(split))]
        assert packed.relations == ("likes", "owns")
        assert packed.queries.fingerprint() == data.queries(split).fingerprint()
        assert len(packed.cardinalities) == 2


def data_split(split: str) -> list[tuple[str, str, str]]:
    return VALID if split == "valid" else TEST


def test_the_filter_can_be_left_out(tmp_path):
    arrays = write_scores(tmp_path)
    dense = read_scores(tmp_path, options=ArrayOptions(dataset(), filtered=False))
    assert_packed(pack_dense(dense["test"]), arrays, "test", "abcdef", filtered=False)
    assert dense["test"].header.provenance.filter_splits == ()


def test_gap_scales_are_fitted_on_valid_and_used_for_test(tmp_path):
    arrays = write_scores(tmp_path)
    dense = read_scores(tmp_path, options=ArrayOptions(dataset()))
    valid, test = dense["valid"], dense["test"]
    scores = [arrays["valid", model] for model in ("x", "y")]
    scales = fit_gap_scales(scores, valid.answer_column, valid.excluded(slice(None)))
    assert valid.header.gap_scales.tolist() == scales.tolist() == test.header.gap_scales.tolist()
    assert pack_dense(test).gaps.shape == pack_dense(test).contested.shape
    without = read_scores(tmp_path, options=ArrayOptions(dataset(), gaps=False))
    assert pack_dense(without["test"]).gaps is None


def test_without_a_data_set_columns_are_ids_and_relations_come_from_both_splits(tmp_path):
    arrays = write_scores(tmp_path)
    for split in ("valid", "test"):
        rows = [
            "\t".join((str("abcdef".index(a)), r, d, str("abcdef".index(t)))) for a, r, d, t in asked(data_split(split))
        ]
        (tmp_path / f"{split}_queries.tsv").write_text("\n".join(rows))
    dense = read_scores(tmp_path)
    packed = pack_dense(dense["valid"])
    assert packed.relations == ("likes", "owns")
    assert packed.queries.answer.tolist() == ["abcdef".index(q[3]) for q in asked(VALID)]
    assert_packed(packed, arrays, "valid", "abcdef", filtered=False)
    assert packed.provenance.fingerprint == dense["test"].header.provenance.fingerprint
    assert packed.provenance.dataset == tmp_path.name


def test_listed_labels_stand_in_for_a_data_set(tmp_path):
    arrays = write_scores(tmp_path, "fbdace")
    (tmp_path / "relations.txt").write_text("owns\nlikes\nhates\n")
    packed = pack_dense(read_scores(tmp_path)["test"])
    assert packed.relations == ("owns", "likes", "hates")
    assert_packed(packed, arrays, "test", "fbdace", filtered=False)


def test_query_ids_as_arrays(tmp_path):
    arrays = write_scores(tmp_path, "fbdace")
    (tmp_path / "relations.txt").write_text("owns\nlikes\n")
    for split in ("valid", "test"):
        (tmp_path / f"{split}_queries.tsv").unlink()
        ids = [
            ("fbdace".index(a), ["owns", "likes"].index(r), ["tail", "head"].index(d), "fbdace".index(t))
            for a, r, d, t in asked(data_split(split))
        ]
        np.save(tmp_path / f"{split}_queries.npy", np.array(ids))
    for options in (ArrayOptions(dataset()), ArrayOptions()):
        packed = pack_dense(read_scores(tmp_path, options=options)["test"])
        assert_packed(packed, arrays, "test", "fbdace", filtered=options.data is not None)
        assert [packed.relations[r] for r in packed.queries.relation] == [q[1] for q in asked(TEST)]


def test_relations_without_labels_are_counted_over_both_splits_or_given(tmp_path):
    write_scores(tmp_path)
    for split, largest in (("valid", 1), ("test", 4)):
        (tmp_path / f"{split}_queries.tsv").unlink()
        n = 2 * len(data_split(split))
        rows = np.stack([np.zeros(n), np.full(n, largest), np.zeros(n), np.arange(n)], axis=1).astype(int)
        np.save(tmp_path / f"{split}_queries.npy", rows)
    assert read_scores(tmp_path)["valid"].header.relations == ("0", "1", "2", "3", "4")
    more = read_scores(tmp_path, options=ArrayOptions(n_relations=7))
    assert len(more["valid"].header.relations) == 7


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "valid_queries.tsv").unlink(), "has neither valid_queries.tsv nor valid_queries.npy"),
        (lambda f: np.save(f / "test_queries.npy", np.zeros((2, 4), int)), "has both test_queries.tsv and"),
        (lambda f: (f / "test_queries.tsv").write_text(""), "test_queries.tsv is empty: expected a line anchor TAB"),
        (lambda f: (f / "test_queries.tsv").write_text("a\tlikes\tb\n"), "test_queries.tsv, line 1: found 3 fields"),
        (lambda f: (f / "test_queries.tsv").write_text("a\tlikes\tup\tb\n"), "line 1: unknown direction 'up'"),
        (lambda f: (f / "test_queries.tsv").write_text("a\tlikes\ttail\tzz\n"), "line 1: unknown entity 'zz'"),
        (lambda f: (f / "test_queries.tsv").write_text("a\tloves\ttail\tb\n"), "line 1: unknown relation 'loves'"),
        (
            lambda f: (f / "test_queries.tsv").write_text("a\tlikes\ttail\tb\n"),
            r"test_queries.tsv: \(a, likes, b\) is not a triple of test in toy",
        ),
        (lambda f: (f / "x_test_scores.npy").unlink(), "model 'x' has no x_test_scores.npy"),
        (
            lambda f: np.save(f / "y_test_scores.npy", np.full((6, E), np.nan)),
            "y_test_scores.npy, row 0, column 0: found score nan",
        ),
        (
            lambda f: np.save(f / "y_valid_scores.npy", np.full((4, E), np.inf)),
            "y_valid_scores.npy, row 0, column 0: found score inf",
        ),
        (
            lambda f: np.save(f / "y_valid_scores.npy", np.zeros((4, E + 1))),
            "y_valid_scores.npy has 7 columns, the data set 'toy' has 6 entities: expected one column per entity",
        ),
        (
            lambda f: np.save(f / "x_valid_scores.npy", np.zeros((4, E - 1))),
            "x_valid_scores.npy has 5 columns, the data set 'toy' has 6 entities",
        ),
        (lambda f: np.save(f / "y_valid_scores.npy", np.zeros((3, E))), "y_valid_scores.npy has rows for 3 queries"),
    ],
)
def test_bad_folders_are_refused_with_the_place_at_fault(tmp_path, damage, message):
    write_scores(tmp_path)
    damage(tmp_path)
    with pytest.raises((RanksError, DatasetError), match=message):
        pack_dense(read_scores(tmp_path, options=ArrayOptions(dataset()))["test"])


def test_labels_without_a_data_set_say_how_to_name_it(tmp_path):
    write_scores(tmp_path)
    with pytest.raises(RanksError, match=r"line 1: unknown entity 'a'\. Without a data set, .*: pass .*`data=…`"):
        read_scores(tmp_path)


def test_query_files_of_two_kinds_are_refused(tmp_path):
    write_scores(tmp_path)
    (tmp_path / "test_queries.tsv").unlink()
    np.save(tmp_path / "test_queries.npy", np.zeros((6, 4), dtype=int))
    with pytest.raises(RanksError, match="has query files of labels and of ids"):
        read_scores(tmp_path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3), int), r"has shape \(2, 3\) of int64, expected \(queries, 4\) whole numbers"),
        (np.array([[0, 0, 2, 0]]), "row 0: found direction 2, expected 0 to 1"),
        (np.array([[0, 0, 1, 0], [9, 0, 1, 0]]), "row 1: found anchor 9, expected 0 to 5"),
    ],
)
def test_bad_query_ids_are_refused(tmp_path, array, message):
    write_scores(tmp_path)
    np.save(tmp_path / "q.npy", array)
    with pytest.raises(RanksError, match=message):
        read_arrays("scores", {"x": tmp_path / "x_valid_scores.npy"}, tmp_path / "q.npy", "valid")


def test_the_filter_needs_a_data_set(tmp_path):
    write_scores(tmp_path, "fbdace")
    with pytest.raises(RanksError, match="known answers are those of a data set: pass `data=…`"):
        read_scores(tmp_path, options=ArrayOptions(filtered=True))


def arrays_of(folder: Path, split: str, kind: str = "scores") -> dict[str, Path]:
    return {model: folder / f"{model}_{split}_{kind}.npy" for model in ("y", "x")}


def test_arrays_named_one_by_one_keep_their_order_and_fit_the_other_split(tmp_path):
    arrays = write_scores(tmp_path)
    options = ArrayOptions(dataset())
    dense = read_arrays(
        "scores", arrays_of(tmp_path, "valid"), tmp_path / "valid_queries.tsv", "valid", options=options
    )
    valid = pack_dense(dense)
    assert valid.models == ("y", "x")
    assert_packed(valid, arrays, "valid", "abcdef", filtered=True)
    files, queries = arrays_of(tmp_path, "test"), tmp_path / "test_queries.tsv"
    test = read_arrays("scores", files, queries, "test", other=valid, options=options)
    assert test.header.gap_scales.tolist() == valid.gap_scales.tolist()
    with pytest.raises(RanksError, match="score gaps of test use the scales of valid: pack the scores of valid first"):
        read_arrays("scores", files, queries, "test", options=options)
    with pytest.raises(RanksError, match=r"models of valid and test differ .y only in valid."):
        read_arrays("scores", {"x": files["x"]}, queries, "test", other=valid, options=replace(options, gaps=False))
    with pytest.raises(RanksError, match="scales of score gaps of valid and test differ"):
        read_arrays("scores", files, queries, "test", other=valid, options=replace(options, gaps=False))


def test_arrays_of_ranks_have_no_gaps_and_take_the_relations_of_the_other_split(tmp_path):
    write_scores(tmp_path, "fbdace")
    for split in ("valid", "test"):
        for model in ("x", "y"):
            scores = np.load(tmp_path / f"{model}_{split}_scores.npy")
            np.save(tmp_path / f"{model}_{split}_ranks.npy", (-scores).argsort(axis=1).argsort(axis=1) + 1)
    queries = tmp_path / "valid_queries.tsv"
    valid = pack_dense(read_arrays("ranks", arrays_of(tmp_path, "valid", "ranks"), queries, "valid"))
    assert valid.gaps is None
    test_files = arrays_of(tmp_path, "test", "ranks")
    test = read_arrays("ranks", test_files, tmp_path / "test_queries.tsv", "test", other=valid)
    assert test.header.relations == valid.relations == ("likes", "owns")
    assert test.header.provenance.fingerprint == valid.provenance.fingerprint
    with pytest.raises(RanksError, match="ranks have no score gaps"):
        read_arrays("ranks", test_files, queries, "valid", options=ArrayOptions(gaps=True))
    other = changed(valid, relations=("likes",))
    with pytest.raises(RanksError, match="line 3: unknown relation 'owns'"):
        read_arrays("ranks", test_files, tmp_path / "test_queries.tsv", "test", other=other)


@pytest.mark.parametrize("relation", ["2147483646", "65536", "9" * 5000])
def test_relation_ids_that_rows_cannot_hold_are_refused(tmp_path, relation):
    """A relation id of ten digits once took gigabytes, and one of 5,000 digits ended in a traceback."""
    write_scores(tmp_path, "abcdef", np.float32)
    for split, triples in (("valid", VALID), ("test", TEST)):
        rows = ["\t".join(("0", relation, direction, "1")) for _, _, direction, _ in asked(triples)]
        (tmp_path / f"{split}_queries.tsv").write_text("\n".join(rows) + "\n")
    with pytest.raises(RanksError, match=r"found the relation id [\d,]+ in 1 rows, expected ids below 65,536\. Number"):
        read_scores(tmp_path)


def test_relation_ids_without_gaps_and_given_numbers_are_read(tmp_path):
    relations = relation_vocabulary(tmp_path, {str(number) for number in range(70_000)})
    assert len(relations) == 70_000
    assert len(relation_vocabulary(tmp_path, {"100000"}, 100_001)) == 100_001


def test_negative_relations_are_refused_with_their_row(tmp_path):
    np.save(tmp_path / "q.npy", np.array([[0, 0, 0, 1], [0, -3, 0, 1]]))
    with pytest.raises(RanksError, match=r"q\.npy, row 1: found relation -3, expected 0 or more"):
        read_query_file(tmp_path / "q.npy").relation_labels()
