"""Dense arrays in chunks: the budget never changes the result, and bad values are named."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.data.queries import Queries
from relens.errors import InputError, RanksError
from relens.importers import dense as dense_module
from relens.importers.dense import Dense, Matrix, pack_dense
from relens.packs.pack import PackHeader
from relens.packs.packing import pack_ranks, pack_scores, rerank
from relens.packs.store import assemble
from relens.records import Provenance
from tests import strategies
from tests.random_packs import assert_same

few = settings(max_examples=25, deadline=None)


def queries_for(answers: np.ndarray) -> Queries:
    zeros = np.zeros_like(answers)
    return Queries.from_columns(np.stack([zeros, zeros, zeros, answers, np.arange(len(answers))]))


def dense_of(kind: str, values: list[np.ndarray], answers: np.ndarray, **changes) -> Dense:
    models = tuple(f"m{i}" for i in range(len(values)))
    header = PackHeader(models, ("r",), queries_for(answers), Provenance("toy", "f00d", "valid"))
    matrices = [Matrix.from_array(f"{model}.npy", array) for model, array in zip(models, values, strict=True)]
    return replace(Dense(header, kind, matrices, answers), **changes)


def ranks(n_queries: int = 7, n_columns: int = 9, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(1, n_columns + 1, (n_queries, n_columns)).astype(np.uint16) for _ in range(3)]


def on_disk(dense: Dense, folder) -> Dense:
    matrices = []
    for matrix in dense.matrices:
        np.save(folder / matrix.place, matrix.rows(0, matrix.shape[0]))
        matrices.append(Matrix.open(folder / matrix.place))
    return replace(dense, matrices=matrices)


@pytest.mark.kernels
@few
@given(block=strategies.rank_blocks(), budget=st.sampled_from([1, 300, 2**20]), tile=st.sampled_from([1, 60, 2**22]))
def test_ranks_from_disk_in_chunks_equal_ranks_packed_at_once(tmp_path_factory, block, budget, tile):
    folder = tmp_path_factory.mktemp("dense")
    dense = dense_of("ranks", block.values, block.answer_column)
    whole = assemble(dense.header, [pack_ranks(block.values, block.answer_column)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_module, "_TILE_BYTES", tile)
        assert_same(pack_dense(dense, memory_budget=budget), whole)
        assert_same(pack_dense(on_disk(dense, folder), folder / "store", memory_budget=budget, jobs=1), whole)


@pytest.mark.kernels
@few
@given(block=strategies.score_blocks(), budget=st.sampled_from([1, 900, 2**30]), jobs=st.sampled_from([1, 3]))
def test_filtered_scores_with_gaps_in_chunks_equal_scores_packed_at_once(block, budget, jobs):
    scales = np.linspace(0.01, 0.5, len(block.values))

    def excluded(rows):
        known = [sorted(block.known_of(int(q))) for q in np.arange(len(block.answer_column))[rows]]
        columns = [column for row in known for column in row]
        return np.cumsum([0] + [len(row) for row in known]), np.array(columns, dtype=np.int64)

    dense = dense_of("scores", block.values, block.answer_column, excluded=excluded)
    dense = replace(dense, header=replace(dense.header, gap_scales=scales))
    whole = assemble(dense.header, [pack_scores(block.values, block.answer_column, block.known, scales)])
    assert_same(pack_dense(dense, memory_budget=budget, jobs=jobs), whole)


@pytest.mark.kernels
def test_known_answers_make_given_ranks_be_ranked_anew():
    known = (np.array([0, 2, 2]), np.array([1, 2]))
    answers = np.array([0, 3])
    dense = dense_of("ranks", ranks(2, 4), answers, excluded=lambda rows: known)
    assert_same(pack_dense(dense), assemble(dense.header, [rerank(ranks(2, 4), answers, known)]))


@pytest.mark.kernels
def test_files_of_different_types_and_byte_orders_are_packed_together(tmp_path):
    dtypes = (np.uint16, np.dtype(">i8"), np.float32)
    mixed = [values.astype(dtype) for values, dtype in zip(ranks(), dtypes, strict=True)]
    dense = on_disk(dense_of("ranks", mixed, np.arange(7)), tmp_path)
    assert [matrix.dtype for matrix in dense.matrices] == list(dtypes)
    assert_same(pack_dense(dense, memory_budget=1), pack_dense(dense_of("ranks", ranks(), np.arange(7))))


def test_a_file_that_becomes_shorter_is_refused(tmp_path):
    dense = on_disk(dense_of("ranks", ranks(), np.arange(7)), tmp_path)
    file = tmp_path / "m1.npy"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(RanksError, match=r"m1.npy has become shorter while it was being read. Write it again."):
        pack_dense(dense)


def test_column_major_files_are_read_as_well(tmp_path):
    dense = dense_of("ranks", [np.asfortranarray(values) for values in ranks()], np.arange(7))
    assert_same(pack_dense(on_disk(dense, tmp_path)), pack_dense(dense_of("ranks", ranks(), np.arange(7))))


def test_rows_of_several_queries_are_cut_and_named_as_in_the_file(tmp_path):
    values = np.array([[1, 2, 3, 3, 1, 2], [2, 2, 1, 1, 9, 3]])
    for order in ("F", "C"):
        np.save(tmp_path / "m.npy", np.asarray(values, order=order))
        matrix = Matrix.open(tmp_path / "m.npy", queries_per_row=2)
        assert matrix.rows(1, 3).tolist() == [[3, 1, 2], [2, 2, 1]]
        assert matrix.rows(2, 4).tolist() == [[2, 2, 1], [1, 9, 3]]
    dense = replace(dense_of("ranks", [np.ones((4, 3))], np.zeros(4, dtype=int)), matrices=[matrix])
    with pytest.raises(RanksError, match=r"m.npy, row 1, column 4: found rank 9, expected a whole number from 1 to 3"):
        pack_dense(dense)


def test_progress_counts_every_query_once():
    done = []

    class Recorder:
        def task(self, description, total):
            from contextlib import nullcontext

            done.append((description, total))
            return nullcontext(done.append)

    pack_dense(dense_of("ranks", ranks(), np.arange(7)), memory_budget=1, progress=Recorder())
    assert done[0] == ("packing valid", 7)
    assert sum(done[1:]) == 7


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (0, np.uint16, "found rank 0, expected a whole number from 1 to 9. Ranks count from 1: add 1"),
        (10, np.int64, "found rank 10, expected a whole number from 1 to 9. Ranks and candidates must come from the"),
        (-3, np.int32, "found rank -3, expected a whole number from 1 to 9. Export the ranks again"),
        (2.5, np.float32, "found rank 2.5, .*If these are scores, import them as scores"),
        (np.nan, np.float64, "found rank nan, expected a whole number"),
    ],
)
def test_bad_ranks_are_named_by_file_row_and_column(tmp_path, value, dtype, message):
    values = [array.astype(dtype) for array in ranks()]
    values[1][5, 3] = value
    dense = on_disk(dense_of("ranks", values, np.arange(7)), tmp_path)
    with pytest.raises(RanksError, match=f"m1.npy, row 5, column 3: {message}"):
        pack_dense(dense, tmp_path / "store", memory_budget=1)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_bad_scores_are_named_by_file_row_and_column(value, shown, dtype):
    values = [array.astype(dtype) for array in ranks()]
    values[2][6, 0] = value
    with pytest.raises(RanksError, match=f"m2.npy, row 6, column 0: found score {shown}, expected a finite number"):
        pack_dense(dense_of("scores", values, np.arange(7)))


@pytest.mark.parametrize(
    ("dense", "message"),
    [
        (
            dense_of("ranks", [np.ones((2, 3)), np.ones((2, 4))], np.zeros(2, dtype=int)),
            "m1.npy has 4 columns, m0.npy has 3",
        ),
        (
            dense_of("ranks", [np.ones((2, 3)), np.ones((5, 3))], np.zeros(2, dtype=int)),
            "m1.npy has rows for 5 queries, the query list of valid has 2",
        ),
        (
            dense_of("ranks", [np.ones((2, 3))], np.array([0, 3])),
            "the answer of query 1 .counted from 0. is candidate 3, .*columns 0 to 2",
        ),
        (
            dense_of("scores", [np.ones((2, 3), int)], np.zeros(2, dtype=int)),
            "m0.npy holds int64, expected scores as float16, float32 or float64: use .astype",
        ),
        (dense_of("ranks", [np.ones((2, 3), complex)], np.zeros(2, dtype=int)), "holds complex128, expected ranks as"),
        (dense_of("ranks", [], np.zeros(0, dtype=int)), "nothing to pack for valid: found 0 arrays and 0"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(dense, message):
    with pytest.raises(RanksError, match=message):
        pack_dense(dense)


def test_files_of_another_shape_are_refused(tmp_path):
    np.save(tmp_path / "flat.npy", np.ones(4))
    np.save(tmp_path / "odd.npy", np.ones((2, 5)))
    np.save(tmp_path / "empty.npy", np.ones((0, 3)))
    with pytest.raises(RanksError, match=r"flat.npy has shape \(4,\), expected \(queries, candidates\)"):
        Matrix.open(tmp_path / "flat.npy")
    with pytest.raises(RanksError, match=r"empty.npy has shape \(0, 3\), expected \(queries, candidates\)"):
        Matrix.open(tmp_path / "empty.npy")
    with pytest.raises(RanksError, match=r"odd.npy .*with a multiple of 2 columns"):
        Matrix.open(tmp_path / "odd.npy", queries_per_row=2)
    (tmp_path / "odd.npy").write_bytes((tmp_path / "odd.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match=r"odd.npy cannot be read as a plain .npy array"):
        Matrix.open(tmp_path / "odd.npy")
