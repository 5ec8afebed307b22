"""The authors' layout, with files written by plain numpy."""

from pathlib import Path

import numpy as np
import pytest

from relens.data.dataset import Dataset
from relens.data.queries import HEAD, TAIL
from relens.errors import DatasetError, InputError, RanksError
from relens.importers.arrays import find_models
from relens.importers.dense import pack_dense
from relens.importers.layouts.authors import read_authors
from relens.packs.pack import PackedRanks
from tests import oracles
from tests.authors_files import TEST, TRAIN, VALID, E, R, both_ways, write_authors


def counts_of(packed: PackedRanks, q: int, weights: list[int]) -> tuple[int, int]:
    contested = packed.contested[:, packed.offsets[q] : packed.offsets[q + 1]]
    return oracles.packed_ensemble_rank(packed.answer[:, q], contested, packed.always_ahead[q], weights)


@pytest.mark.parametrize("order", ["interleaved", "halves", "shuffled"])
def test_directions_and_pairs_are_found_by_id_in_any_order(tmp_path, order):
    arrays = write_authors(tmp_path, order)
    dense = read_authors(tmp_path)
    for split, triples in (("valid", VALID), ("test", TEST)):
        queries, rows = dense[split].header.queries, arrays[split, "triples"]
        assert (queries.anchor.tolist(), queries.answer.tolist()) == (rows[:, 0].tolist(), rows[:, 2].tolist())
        assert queries.direction.tolist() == [HEAD if r >= R else TAIL for r in rows[:, 1]]
        assert queries.relation.tolist() == [r % R for r in rows[:, 1]]
        asked = [(a, r, b) if r < R else (b, r - R, a) for a, r, b in rows.tolist()]
        for number in range(len(triples)):
            same = np.flatnonzero(queries.triple == number)
            assert len(same) == 2
            assert len({asked[q] for q in same}) == 1
            assert set(queries.direction[same]) == {HEAD, TAIL}
        assert dense[split].header.relations == ("0", "1", "2")
        assert dense[split].header.provenance.candidates == "all"


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64, np.float32, np.float64])
def test_ranks_are_taken_as_they_are_and_models_sorted(tmp_path, dtype):
    arrays = write_authors(tmp_path)
    for path in (tmp_path / "ranks" / "WN").iterdir():
        np.save(path, np.load(path).astype(dtype))
    packed = {split: pack_dense(dense) for split, dense in read_authors(tmp_path).items()}
    for split in ("valid", "test"):
        assert packed[split].models == ("ConvE", "rotate")
        rows = arrays[split, "triples"]
        for q in range(len(rows)):
            by_model = [arrays[split, model][q].tolist() for model in packed[split].models]
            for weights in ([1, 0], [0, 1], [1, 1], [2, 5]):
                assert counts_of(packed[split], q, weights) == oracles.ensemble_rank(by_model, rows[q, 2], weights)
    assert packed["valid"].provenance.fingerprint == packed["test"].provenance.fingerprint
    assert packed["valid"].provenance.filter_splits == ()
    assert packed["valid"].provenance.dataset == "WN"


@pytest.mark.parametrize("with_train", [False, True])
def test_filter_drops_known_answers_and_ranks_anew(tmp_path, with_train):
    arrays = write_authors(tmp_path, "shuffled")
    if with_train:
        np.save(tmp_path / "dataset" / "WN" / "train_triples.npy", both_ways(TRAIN, "halves"))
    dense = read_authors(tmp_path, filtered=True, models=["rotate", "ConvE"])
    true = VALID + TEST + (TRAIN if with_train else [])
    splits = ("train", "valid", "test") if with_train else ("valid", "test")
    assert dense["test"].header.provenance.filter_splits == splits
    assert bool(dense["test"].header.cardinalities) == with_train
    for split in ("valid", "test"):
        packed = pack_dense(dense[split])
        assert packed.models == ("rotate", "ConvE")
        for q, (a, r, answer) in enumerate(arrays[split, "triples"].tolist()):
            known = {t for h, s, t in true if (h, s) == (a, r)} | {h for h, s, t in true if (t, s + R) == (a, r)}
            by_model = [
                oracles.doubled_ranks([-rank for rank in arrays[split, model][q].tolist()], answer, known)
                for model in packed.models
            ]
            assert packed.answer[:, q].tolist() == [ranks[answer] for ranks in by_model]
            columns = sorted(by_model[0])
            rows = [[ranks[j] for j in columns] for ranks in by_model]
            for weights in ([1, 0], [3, 2], [0, 1]):
                assert counts_of(packed, q, weights) == oracles.ensemble_rank(rows, columns.index(answer), weights)


def test_given_relations_need_no_pairs(tmp_path):
    write_authors(tmp_path)
    for split, rows in (("valid", VALID[:2]), ("test", both_ways(TEST)[:5])):
        np.save(tmp_path / "dataset" / "WN" / f"{split}_triples.npy", np.array(rows))
        for model in ("rotate", "ConvE"):
            np.save(tmp_path / "ranks" / "WN" / f"{model}_{split}_ranks.npy", np.ones((len(rows), E), dtype=int))
    with pytest.raises(RanksError, match=r"cannot tell head queries from tail queries in valid: .*`n_relations=R`"):
        read_authors(tmp_path)
    dense = read_authors(tmp_path, n_relations=R)
    assert dense["valid"].header.queries.direction.tolist() == [TAIL, TAIL]
    assert dense["test"].header.queries.direction.tolist() == [TAIL, HEAD, TAIL, HEAD, TAIL]
    assert len(set(dense["test"].header.queries.triple.tolist())) == 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(0, 0, 1), (1, 3, 0), (0, 1, 2)], "found 3 rows, expected an even number"),
        ([(0, 1, 1), (1, 1, 0)], "found relation ids 1 to 1, which do not fall into two halves"),
        ([(0, 1, 1), (1, 5, 0), (2, 6, 3), (3, 8, 2)], "found relation ids 1 to 8, which do not fall"),
        ([(0, 0, 1), (1, 3, 2)], r"by their ids R would be 3, but \(0, 0, 1\) lacks one of its two rows"),
    ],
)
def test_rows_that_are_no_pairs_are_described(tmp_path, rows, message):
    write_authors(tmp_path)
    np.save(tmp_path / "dataset" / "WN" / "test_triples.npy", np.array(rows))
    with pytest.raises(RanksError, match=f"queries in test: {message}"):
        read_authors(tmp_path)


def test_splits_must_agree_on_the_number_of_relations(tmp_path):
    write_authors(tmp_path)
    rows = both_ways(TEST)
    rows[rows[:, 1] >= R, 1] += 1
    np.save(tmp_path / "dataset" / "WN" / "test_triples.npy", rows)
    with pytest.raises(RanksError, match=r"splits disagree on the number of relations \(3 in valid, 4 in test\)"):
        read_authors(tmp_path)


def test_repeated_triples_pair_up_occurrence_by_occurrence(tmp_path):
    write_authors(tmp_path)
    rows = both_ways([(0, 0, 1), (0, 0, 1)], "halves")
    np.save(tmp_path / "dataset" / "WN" / "test_triples.npy", rows)
    for model in ("rotate", "ConvE"):
        np.save(tmp_path / "ranks" / "WN" / f"{model}_test_ranks.npy", np.ones((4, E), dtype=int))
    assert read_authors(tmp_path)["test"].header.queries.triple.tolist() == [0, 1, 0, 1]


def dataset(relations="cab", entities="gfedcba") -> Dataset:
    """The same graph with labels; id i of the files is label i of the arguments."""
    named = {
        split: [(entities[h], relations[r], entities[t]) for h, r, t in triples]
        for split, triples in (("train", TRAIN), ("valid", VALID), ("test", TEST))
    }
    return Dataset.from_labels("letters", **named)


def test_a_data_set_gives_labels_filter_and_classes_through_the_listed_order(tmp_path):
    arrays = write_authors(tmp_path)
    (tmp_path / "dataset" / "WN" / "relations.txt").write_text("c\na\nb\n")
    (tmp_path / "dataset" / "WN" / "entities.txt").write_text("\n".join("gfedcba"))
    data = dataset()
    dense = read_authors(tmp_path, filtered=True, data=data)["valid"]
    queries = dense.header.queries
    rows = arrays["valid", "triples"]
    assert [data.entities.labels[e] for e in queries.answer] == ["gfedcba"[e] for e in rows[:, 2]]
    assert [dense.header.relations[r] for r in queries.relation] == ["cab"[r % R] for r in rows[:, 1]]
    assert dense.answer_column.tolist() == rows[:, 2].tolist()
    assert dense.header.provenance.fingerprint == data.fingerprint
    assert dense.header.provenance.filter_splits == ("train", "valid", "test")
    assert len(dense.header.cardinalities) == R
    without = read_authors(tmp_path, filtered=True)["valid"]
    np.save(tmp_path / "dataset" / "WN" / "train_triples.npy", both_ways(TRAIN))
    plain = pack_dense(read_authors(tmp_path, filtered=True)["valid"])
    assert without.header.relations == ("c", "a", "b")
    labelled = pack_dense(dense)
    assert labelled.contested.tolist() == plain.contested.tolist()
    assert labelled.answer.tolist() == plain.answer.tolist()


def test_a_data_set_numbered_in_another_way_is_refused(tmp_path):
    write_authors(tmp_path)
    with pytest.raises(RanksError, match=r"valid_triples.npy: \(.*\) is not a triple of valid in letters"):
        read_authors(tmp_path, data=dataset())
    with pytest.raises(RanksError, match="have 4 relations, the data set or the list of relations has 3"):
        read_authors(tmp_path, data=dataset(), n_relations=4)
    (tmp_path / "dataset" / "WN" / "entities.txt").write_text("a\nb\n")
    with pytest.raises(RanksError, match=r"entities.txt has 2 lines, expected 7: one entity per id"):
        read_authors(tmp_path, data=dataset())
    with pytest.raises(RanksError, match=r"entities.txt has 2 lines, expected 7: one entity per id"):
        read_authors(tmp_path)
    (tmp_path / "dataset" / "WN" / "entities.txt").write_text("\n".join("abcdefx"))
    with pytest.raises(RanksError, match=r"entities.txt: unknown entity 'x'"):
        read_authors(tmp_path, data=dataset())
    (tmp_path / "dataset" / "WN" / "relations.txt").write_text("a\na\nb\n")
    with pytest.raises(RanksError, match=r"relations.txt: the relation 'a' occurs twice"):
        read_authors(tmp_path)
    (tmp_path / "dataset" / "WN" / "relations.txt").unlink()
    smaller = Dataset.from_labels("small", train=[("a", "r", "b")])
    with pytest.raises(RanksError, match="files have 7 columns, the data set has 2 entities"):
        read_authors(tmp_path, data=smaller, n_relations=R)


def write_ogb(folder: Path, rows_per_triple: int, m: int = 2, triples=None) -> dict:
    """Write the OGB form: 2(m + 1) columns, plain triples, one or two rank rows per triple."""
    rng = np.random.default_rng(3)
    (folder / "ranks" / "biokg").mkdir(parents=True)
    (folder / "dataset" / "biokg").mkdir(parents=True)
    arrays = {}
    for split, default in (("valid", VALID), ("test", TEST)):
        rows = np.array((triples or {}).get(split, default))
        np.save(folder / "dataset" / "biokg" / f"{split}_triples.npy", rows)
        for model in ("a", "b"):
            ranks = rng.integers(1, m + 2, (rows_per_triple * len(rows), 2 * (m + 1))).astype(np.int32)
            np.save(folder / "ranks" / "biokg" / f"{model}_{split}_ranks.npy", ranks)
            arrays[split, model] = ranks
    return arrays


def assert_halves_packed(packed: PackedRanks, arrays: dict, split: str, m: int) -> None:
    for q in range(packed.n_queries):
        half = slice(0, m + 1) if q % 2 == 0 else slice(m + 1, None)
        by_model = [arrays[split, model][q // 2, half].tolist() for model in packed.models]
        for weights in ([1, 0], [0, 1], [1, 1]):
            assert counts_of(packed, q, weights) == oracles.ensemble_rank(by_model, 0, weights)


def test_ogb_rows_ask_for_the_head_then_for_the_tail(tmp_path):
    arrays = write_ogb(tmp_path, rows_per_triple=1)
    dense = read_authors(tmp_path, form="ogb")
    queries = dense["test"].header.queries
    assert queries.anchor.tolist() == [2, 1, 0, 5, 2, 2]
    assert queries.answer.tolist() == [1, 2, 5, 0, 2, 2]
    assert queries.direction.tolist() == [HEAD, TAIL] * 3
    assert queries.relation.tolist() == [0, 0, 1, 1, 1, 1]
    assert queries.triple.tolist() == [0, 0, 1, 1, 2, 2]
    assert dense["test"].header.relations == ("0", "1", "2")
    packed = pack_dense(dense["test"])
    assert packed.provenance.candidates == "sampled"
    assert packed.n_candidates.tolist() == [3] * 6
    assert_halves_packed(packed, arrays, "test", 2)


def test_1002_columns_are_recognised(tmp_path):
    arrays = write_ogb(tmp_path, rows_per_triple=1, m=500)
    packed = pack_dense(read_authors(tmp_path)["valid"])
    assert (packed.n_queries, packed.provenance.candidates) == (8, "sampled")
    assert_halves_packed(packed, arrays, "valid", 500)


def test_two_rank_rows_per_triple_make_inverses_relations_of_their_own(tmp_path):
    arrays = write_ogb(tmp_path, rows_per_triple=2)
    dense = read_authors(tmp_path, form="ogb")
    header = dense["test"].header
    assert header.relations == ("0", "1", "2", "0^-1", "1^-1", "2^-1")
    assert header.queries.relation.tolist() == [0, 0, 1, 1, 1, 1, 3, 3, 4, 4, 4, 4]
    assert header.queries.triple.tolist() == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]
    assert_halves_packed(pack_dense(dense["test"]), arrays, "test", 2)
    assert len(read_authors(tmp_path, form="ogb", n_relations=535)["test"].header.relations) == 1070


@pytest.mark.parametrize("swapped", [True, False])
def test_triples_that_list_both_relations_themselves_are_understood(tmp_path, swapped):
    def mirrored(triples):
        pairs = [[(h, r, t), (t, r + R, h) if swapped else (h, r + R, t)] for h, r, t in triples]
        return [row for pair in pairs for row in pair]

    write_ogb(tmp_path, rows_per_triple=1, triples={"valid": mirrored(VALID), "test": mirrored(TEST)})
    header = read_authors(tmp_path, form="ogb")["test"].header
    assert header.relations[R:] == ("0^-1", "1^-1", "2^-1")
    assert header.queries.relation.tolist() == [0, 0, 3, 3, 1, 1, 4, 4, 1, 1, 4, 4]
    numbers = header.queries.triple.reshape(3, 4)
    assert (numbers == numbers[:, :1]).all()
    assert len(set(numbers[:, 0].tolist())) == 3


def test_sampled_candidates_with_a_data_set_have_its_labels(tmp_path):
    write_ogb(tmp_path, rows_per_triple=2)
    data = dataset("abc", "abcdefg")
    header = read_authors(tmp_path, form="ogb", data=data)["valid"].header
    assert header.relations == ("a", "b", "c", "a^-1", "b^-1", "c^-1")
    assert header.provenance.fingerprint == data.fingerprint


def test_sampled_candidates_are_refused_where_they_do_not_fit(tmp_path):
    write_ogb(tmp_path, rows_per_triple=1)
    with pytest.raises(RanksError, match="sampled candidates cannot be filtered"):
        read_authors(tmp_path, form="ogb", filtered=True)
    np.save(tmp_path / "ranks" / "biokg" / "a_test_ranks.npy", np.ones((6, 6), dtype=int))
    with pytest.raises(RanksError, match="have 1 rows per triple in valid and 2 rows per triple in test"):
        read_authors(tmp_path, form="ogb")
    np.save(tmp_path / "ranks" / "biokg" / "a_test_ranks.npy", np.ones((4, 6), dtype=int))
    with pytest.raises(RanksError, match=r"a_test_ranks.npy has 4 rows, .*test_triples.npy has 3: expected one"):
        read_authors(tmp_path, form="ogb")


def test_the_data_set_may_be_left_out_where_there_is_one(tmp_path):
    write_authors(tmp_path, name="WN")
    assert read_authors(tmp_path)["valid"].header.provenance.dataset == "WN"
    write_authors(tmp_path, name="FB")
    with pytest.raises(RanksError, match="has the data sets FB, WN: choose one with `dataset=…`"):
        read_authors(tmp_path)
    with pytest.raises(RanksError, match=r"has no data set 'wn'; did you mean 'WN'\?"):
        read_authors(tmp_path, "wn")
    assert read_authors(tmp_path, "FB")["valid"].header.provenance.dataset == "FB"
    with pytest.raises(RanksError, match="ranks is not a folder; expected"):
        read_authors(tmp_path / "ranks")
    with pytest.raises(RanksError, match=r"FB is not a folder; expected one with files such as transe_valid_ranks.npy"):
        find_models(tmp_path / "FB", "ranks")


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda r, d: (r / "rotate_test_ranks.npy").unlink(), RanksError, "'rotate' has no rotate_test_ranks.npy"),
        (lambda r, d: (r / "rotate_test_ranks.npy").rename(r / "ConvE2_test_ranks.npy"), RanksError, "no ConvE2_valid"),
        (lambda r, d: [p.unlink() for p in r.iterdir()], RanksError, "has no files named MODEL_valid_ranks.npy"),
        (
            lambda r, d: np.save(r / "conve_valid_ranks.npy", np.ones(3)),
            RanksError,
            "two models are called 'ConvE'",
        ),
        (lambda r, d: (d / "test_triples.npy").unlink(), InputError, "test_triples.npy does not exist"),
        (
            lambda r, d: np.save(d / "test_triples.npy", np.ones((2, 4), int)),
            RanksError,
            r"has shape \(2, 4\) of int64",
        ),
        (lambda r, d: np.save(d / "test_triples.npy", np.ones((2, 3))), RanksError, r"has shape \(2, 3\) of float64"),
        (lambda r, d: np.save(d / "valid_triples.npy", np.ones((0, 3), int)), RanksError, "valid_triples.npy is empty"),
        (
            lambda r, d: np.save(d / "test_triples.npy", both_ways([(0, 0, 9)])),
            RanksError,
            r"test_triples.npy, row 0: found ids \(0, 0, 9\), expected entities below 7 and relations below 6",
        ),
        (
            lambda r, d: np.save(r / "ConvE_test_ranks.npy", np.ones((6, 9), int)),
            RanksError,
            "ConvE_test_ranks.npy has 9 columns, .*ConvE_valid_ranks.npy has 7",
        ),
        (
            lambda r, d: np.save(r / "ConvE_test_ranks.npy", np.array([{}] * 9, dtype=object), allow_pickle=True),
            InputError,
            "pickled or truncated files cannot be read",
        ),
    ],
)
def test_bad_folders_are_refused_with_the_file_at_fault(tmp_path, damage, error, message):
    write_authors(tmp_path)
    damage(tmp_path / "ranks" / "WN", tmp_path / "dataset" / "WN")
    with pytest.raises(error, match=message):
        read_authors(tmp_path)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (["rotate", "transe"], "has no model 'transe'"),
        (["rotate", "rotate"], "two models are called 'rotate' and 'rotate'"),
        (["\t"], "cannot name a model"),
    ],
)
def test_chosen_models_must_exist_once(tmp_path, models, message):
    write_authors(tmp_path)
    with pytest.raises(RanksError, match=message):
        read_authors(tmp_path, models=models)


def test_a_rank_file_with_other_rows_than_the_triples_is_refused(tmp_path):
    write_authors(tmp_path)
    np.save(tmp_path / "ranks" / "WN" / "rotate_test_ranks.npy", np.ones((5, E), dtype=int))
    with pytest.raises(RanksError, match=r"rotate_test_ranks.npy has rows for 5 queries, the query list of test has 6"):
        pack_dense(read_authors(tmp_path)["test"])


def test_inverse_labels_that_exist_already_are_refused(tmp_path):
    write_ogb(tmp_path, rows_per_triple=2)
    (tmp_path / "dataset" / "biokg" / "relations.txt").write_text("a\na^-1\nb\n")
    with pytest.raises(DatasetError, match="occurs twice in a vocabulary"):
        read_authors(tmp_path, form="ogb")


@pytest.mark.parametrize(("column", "kind", "most"), [(0, "entity", "16,777,216"), (1, "relation", "65,536")])
def test_sampled_ids_that_rows_cannot_hold_are_refused(tmp_path, column, kind, most):
    """An id of ten digits in a file of 160 bytes once took nine gigabytes."""
    triples = {split: np.array([[0, 0, 1], [2, 1, 3]]) for split in ("valid", "test")}
    triples["valid"][0, column] = 2**31 - 2
    write_ogb(tmp_path, 1, triples=triples)
    with pytest.raises(RanksError, match=f"found the {kind} id 2,147,483,646 in . rows, expected ids below {most}"):
        read_authors(tmp_path, form="ogb")
