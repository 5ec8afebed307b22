"""Weights in other people's forms: there and back, and what is refused on the way in."""

import re
from dataclasses import replace

import numpy as np
import pytest

from relens.ensemble.exchange import FALLBACK_LABEL, export_csv, export_npy, import_csv, import_npy
from relens.ensemble.fit import fit
from relens.errors import InputError, RanksError, WeightsError
from tests.ensemble.cases import random_case


@pytest.fixture
def packed():
    """Ranks of three models for three relations, the last one without queries."""
    return replace(random_case(1, n_queries=12).packed, relations=("r0", "r1", "r2"))


def share(table):
    return table / table.sum(axis=-1, keepdims=True)


# --- the authors' tables ----------------------------------------------------------------------------------------------


def test_a_table_by_relation_and_direction_has_tails_first_and_heads_after(packed, tmp_path):
    path = tmp_path / "w.npy"
    table = np.arange(1.0, 19.0).reshape(6, 3)
    np.save(path, table)
    weights = import_npy(path, packed, packed.models)
    assert weights.grouping.scheme == "relation-direction"
    assert weights.own.all()
    for r in range(3):
        for row, direction in ((r, "tail"), (r + 3, "head")):
            found = weights.table[weights.grouping.labels.index(f"r{r} [{direction}]")]
            assert share(found) == pytest.approx(share(table[row]), rel=1e-5)
    export_npy(weights, tmp_path / "again.npy")
    assert np.load(tmp_path / "again.npy") == pytest.approx(share(table), rel=1e-5)


def test_a_table_by_relation(packed, tmp_path):
    path = tmp_path / "w.npy"
    np.save(path, np.array([[1, 0, 0], [0, 2, 2], [1, 1, 1]]))
    weights = import_npy(path, packed, ["m2", "m0", "m1"], "log")
    assert weights.models == ("m2", "m0", "m1")
    assert weights.grouping.labels == ("r0", "r1", "r2")
    assert weights.table.tolist() == [[2**20, 0, 0], [0, 2**20, 2**20], [2**20] * 3]
    assert weights.input == "log"
    assert weights.settings == {"method": "imported", "file": "w.npy", "input": "log"}
    assert weights.support.sum() == 12
    assert np.array_equal(weights.of_packed(packed).table[0], [0, 0, 2**20])
    export_npy(weights, path)
    assert np.load(path).tolist() == [[1, 0, 0], [0, 0.5, 0.5], pytest.approx([1 / 3] * 3)]


@pytest.mark.parametrize(("rows", "own"), [(2, [1, 1, 0]), (5, [1, 1, 1, 1, 1, 0])])
def test_rows_missing_at_the_end_fall_back_to_equal_weights(packed, tmp_path, rows, own):
    path = tmp_path / "w.npy"
    np.save(path, np.tile([1.0, 0.0, 0.0], (rows, 1)))
    weights = import_npy(path, packed, packed.models)
    assert weights.own.tolist() == own
    assert weights.table[-1].tolist() == weights.fallback.tolist() == [1, 1, 1]


def test_a_fit_exported_and_imported_ranks_alike(packed, tmp_path):
    for group in ("relation-direction", "relation"):
        fitted = fit(packed, input="score", group=group)
        export_npy(fitted, tmp_path / "w.npy")
        back = import_npy(tmp_path / "w.npy", packed, packed.models, "score")
        assert np.abs(back.normalised() - fitted.normalised()).max() < 2e-6


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), "found an array of shape (3,), expected (rows, 3): a column for each of m0, m1, m2 and at most 6"),
        (np.ones((2, 4)), "found an array of shape (2, 4), expected (rows, 3)"),
        (np.ones((7, 3)), "found an array of shape (7, 3), expected (rows, 3)"),
        (np.ones((0, 3)), "found an array of shape (0, 3), expected (rows, 3)"),
        (np.full((2, 3), "x"), "found values of type <U1, expected real numbers"),
        (np.ones((2, 3), dtype=complex), "found values of type complex128, expected real numbers"),
        (np.ones((2, 3), dtype=bool), "found values of type bool, expected real numbers"),
        (np.array([[1.0, 1, 1], [1, -1, 1]]), "w.npy, row 1: found the negative weight -1"),
        (np.array([[1.0, 1, 1], [0, 0, 0]]), "w.npy, row 1: all weights of a vector are 0"),
        (np.array([[np.nan, 1, 1]]), "w.npy, row 0: found NaN or an infinite weight"),
    ],
)
def test_wrong_tables_are_refused_by_name(packed, tmp_path, array, message):
    path = tmp_path / "w.npy"
    np.save(path, array)
    with pytest.raises(WeightsError, match=re.escape(message)):
        import_npy(path, packed, packed.models)


def test_wrong_models_are_refused(packed, tmp_path):
    path = tmp_path / "w.npy"
    np.save(path, np.ones((2, 3)))
    with pytest.raises(RanksError, match="unknown model 'm9'"):
        import_npy(path, packed, ["m0", "m1", "m9"])
    with pytest.raises(WeightsError, match="a model is named twice among m0, m1, m1; each needs one column"):
        import_npy(path, packed, ["m0", "m1", "m1"])


def test_pickled_tables_are_refused(packed, tmp_path):
    path = tmp_path / "w.npy"
    np.save(path, np.array([{}, None, 1], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="pickled or truncated files are refused"):
        import_npy(path, packed, packed.models)


# --- CSV --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["relation", "relation-direction"])
def test_csv_gives_back_the_same_weights(packed, tmp_path, group):
    fitted = fit(packed, input="rank", group=group, regularise="none")
    path = tmp_path / "w.csv"
    path.write_text(export_csv(fitted), encoding="utf-8")
    back = import_csv(path, packed, group)
    assert np.array_equal(back.table, fitted.table)
    assert np.array_equal(back.own, fitted.own)
    assert np.array_equal(back.fallback, fitted.fallback)
    assert np.array_equal(back.answer_ranks(packed).realistic, fitted.answer_ranks(packed).realistic)


def written(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "w.csv"
    path.write_text(text, encoding=encoding)
    return path


def test_csv_by_hand(packed, tmp_path):
    """No counts, no fallback, models in another order, fractions, a blank line, a byte-order mark."""
    path = written(tmp_path, "group,m1,m0,m2\nr1,0.5,1,0\n\nr0,3,0,5\n", "utf-8-sig")
    weights = import_csv(path, packed, "relation", "score")
    assert weights.models == ("m1", "m0", "m2")
    assert weights.table.tolist() == [[3, 0, 5], [2**19, 2**20, 0], [1, 1, 1]]
    assert weights.own.tolist() == [True, True, False]
    assert weights.input == "score"
    assert np.array_equal(weights.of_packed(packed).gap_scales, packed.gap_scales)


def test_csv_of_a_subset_of_the_models(packed, tmp_path):
    weights = import_csv(written(tmp_path, f"group,queries,m2\nr0,,7\n{FALLBACK_LABEL},,3\n"), packed, "relation")
    assert weights.models == ("m2",)
    assert weights.table.tolist() == [[7], [3], [3]]
    assert len(weights.answer_ranks(packed.select_models(["m2"]))) == 12


@pytest.mark.parametrize(("huge", "expected"), [("1048577", [2**20, 1]), ("1e300", [2**20, 0])])
def test_csv_weights_beyond_the_grid_are_put_on_it(packed, tmp_path, huge, expected):
    weights = import_csv(written(tmp_path, f"group,m0,m1\nr0,{huge},1\n"), packed, "relation")
    assert weights.table[0].tolist() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "w.csv: the first line is [], expected group, queries and the names of the models"),
        ("groups,m0\n", "w.csv: the first line is ['groups', 'm0'], expected group"),
        ("group,queries\n", "w.csv: the first line is ['group', 'queries'], expected group"),
        ("group,m0\nr0,1,2\n", "w.csv, line 2: found 3 fields, expected 2"),
        ("group,m0\nr0,1\nr7,1\n", "w.csv, line 3: unknown group 'r7'; known are 'r0', 'r1', 'r2'"),
        ("group,m0\nr0,1\nr0,2\n", "w.csv, line 3: group 'r0' has two lines; keep one"),
        ("group,m0\nr0,one\n", "w.csv, line 2: found ['one'], expected numbers"),
        ("group,m0,m1\nr0,-1,1\n", "w.csv, line 2: found the negative weight -1"),
        ("group,m0,m1\nr0,0,0\n", "w.csv, line 2: all weights of a vector are 0"),
        ("group,m0,m1\nr0,nan,1\n", "w.csv, line 2: found NaN or an infinite weight"),
        ("group,m0,m0\nr0,1,1\n", "w.csv: a model is named twice among m0, m0; each needs one column"),
    ],
)
def test_wrong_csv_is_refused_with_the_line(packed, tmp_path, text, message):
    with pytest.raises(WeightsError, match=re.escape(message)):
        import_csv(written(tmp_path, text), packed, "relation")


def test_files_that_are_no_csv_are_refused(packed, tmp_path):
    with pytest.raises(WeightsError, match=r"none\.csv cannot be read as CSV: .*No such file"):
        import_csv(tmp_path / "none.csv", packed, "relation")
    path = tmp_path / "w.csv"
    path.write_bytes(b"group,m0\nr\xff,1\n")
    with pytest.raises(WeightsError, match=r"w\.csv cannot be read as CSV: 'utf-8' codec"):
        import_csv(path, packed, "relation")
