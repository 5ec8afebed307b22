"""Weights in other people's forms come back as they left, and what cannot be meant is refused with file and place."""

import csv
import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.data.grouping import Grouping
from relens.ensemble.exchange import export_csv, export_npy, import_csv, import_npy
from relens.ensemble.grid import WEIGHT_LIMIT
from relens.ensemble.weights import EnsembleWeights
from relens.errors import DatasetError, InputError, RanksError, RelensError, WeightsError
from tests import simulated
from tests.random_packs import changed

VALID = simulated.packed("valid")
MODELS = VALID.models
R = len(VALID.relations)
BY_RELATION = Grouping.by_relation(VALID.relations)
BY_DIRECTION = Grouping.by_relation_and_direction(VALID.relations)


def weights_of(grouping: Grouping, table: object, own: object = None, fallback: object = (1, 1, 1)) -> EnsembleWeights:
    has_own = np.ones(len(grouping), dtype=bool) if own is None else np.array(own)
    rows = np.where(has_own[:, None], np.array(table, dtype=np.int64), np.array(fallback, dtype=np.int64))
    return EnsembleWeights(
        models=MODELS,
        relations=VALID.relations,
        grouping=grouping,
        table=rows,
        own=has_own,
        fallback=np.array(fallback, dtype=np.int64),
        support=np.bincount(grouping.groups_of(VALID.queries), minlength=len(grouping)),
        dataset=(VALID.provenance.dataset, VALID.provenance.fingerprint),
    )


def numbered(grouping: Grouping) -> EnsembleWeights:
    """Weights that tell every group and model apart."""
    n = len(grouping)
    return weights_of(grouping, np.arange(1, 3 * n + 1).reshape(n, 3))


vectors = st.lists(st.integers(0, WEIGHT_LIMIT), min_size=3, max_size=3).filter(any)


@st.composite
def all_weights(draw: st.DrawFn) -> EnsembleWeights:
    grouping = draw(st.sampled_from([BY_RELATION, BY_DIRECTION]))
    n = len(grouping)
    table = draw(st.lists(vectors, min_size=n, max_size=n))
    own = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return weights_of(grouping, table, own, draw(vectors))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("exchange")


@given(weights=all_weights())
def test_a_csv_comes_back_exactly(folder, weights):
    path = folder / "w.csv"
    path.write_text(export_csv(weights), encoding="utf-8")
    again = import_csv(path, VALID, weights.grouping.scheme)
    for name in ("table", "own", "fallback", "support"):
        assert np.array_equal(getattr(again, name), getattr(weights, name))
    assert (again.models, again.relations, again.dataset) == (weights.models, weights.relations, weights.dataset)
    assert again.settings == {"method": "imported", "file": "w.csv", "input": "rank"}


@given(weights=all_weights())
def test_an_npy_comes_back_in_the_same_ratios(folder, weights):
    path = folder / "w.npy"
    export_npy(weights, path)
    table = np.load(path)
    assert table.dtype == np.float64
    assert np.allclose(table.sum(axis=1), 1)
    again = import_npy(path, VALID, MODELS)
    assert again.grouping.scheme == weights.grouping.scheme
    assert again.own.all()
    # Exactly the same: products of whole numbers.
    for mine, theirs in zip(again.table.tolist(), weights.table.tolist(), strict=True):
        assert [m * max(theirs) for m in mine] == [t * max(mine) for t in theirs]
        assert max(mine) <= WEIGHT_LIMIT


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.1, 0.2, 0.7], [1, 2, 7]),
        ([2.5, 0.0, 0.5], [5, 0, 1]),
        ([1e-300, 3e-300, 0.0], [1, 3, 0]),
        ([1 / 1048576, 1 / 1048575, 0], [1048575, 1048576, 0]),
        ([2**20 + 2, 2**19 + 1, 0.0], [2, 1, 0]),
        # No ratio of grid weights: rounded.
        ([np.pi, np.e, 1.0], [2**20, round(np.e / np.pi * 2**20), round(1 / np.pi * 2**20)]),
        ([2**21 + 1, 1, 0.0], [2**20, 0, 0]),
    ],
)
def test_real_weights_keep_a_ratio_that_the_grid_has(tmp_path, row, expected):
    np.save(tmp_path / "w.npy", np.array([row]))
    assert import_npy(tmp_path / "w.npy", VALID, MODELS).table[0].tolist() == expected
    line = ",".join(["relation 0", *(repr(float(value)) for value in row)])
    (tmp_path / "w.csv").write_text(f"group,{','.join(MODELS)}\n{line}\n")
    assert import_csv(tmp_path / "w.csv", VALID, "relation").table[0].tolist() == expected


def test_csv_has_a_line_per_group_with_weights_of_its_own_and_the_fallback_last():
    weights = weights_of(BY_RELATION, np.arange(1, 13).reshape(4, 3), [True, False, True, False], (7, 0, 9))
    assert list(csv.reader(io.StringIO(export_csv(weights)))) == [
        ["group", "queries", "alpha", "beta", "gamma"],
        ["relation 0", "6", "1", "2", "3"],
        ["relation 2", "18", "7", "8", "9"],
        ["(fallback)", "", "7", "0", "9"],
    ]


def test_labels_with_commas_quotes_and_line_breaks_survive_a_csv(tmp_path):
    awkward = ('a, "b"', "two\nlines", "ü [tail]", " lead")
    packed = changed(VALID, relations=awkward)
    weights = replace(numbered(Grouping.by_relation(awkward)), relations=awkward)
    (tmp_path / "w.csv").write_text(export_csv(weights), encoding="utf-8", newline="")
    again = import_csv(tmp_path / "w.csv", packed, "relation")
    assert again.table.tolist() == weights.table.tolist()
    assert again.own.all()


def test_rows_of_an_npy_are_tails_then_heads(tmp_path):
    weights = numbered(BY_DIRECTION)
    export_npy(weights, tmp_path / "w.npy")
    table = np.load(tmp_path / "w.npy")
    assert table.shape == (2 * R, 3)
    for r in range(R):
        assert table[r].tolist() == weights.normalised()[BY_DIRECTION.table[r, 0]].tolist()
        assert table[r + R].tolist() == weights.normalised()[BY_DIRECTION.table[r, 1]].tolist()
    by_relation = numbered(BY_RELATION)
    export_npy(by_relation, tmp_path / "w.npy")
    assert np.load(tmp_path / "w.npy").tolist() == by_relation.normalised().tolist()


def test_a_grouping_from_a_file_leaves_as_relation_and_direction(tmp_path):
    (tmp_path / "groups.tsv").write_text("relation 0\tx\nrelation 1\tx\n")
    grouping = Grouping.from_file(tmp_path / "groups.tsv", VALID.relations)
    weights = weights_of(grouping, np.arange(1, 10).reshape(3, 3))
    export_npy(weights, tmp_path / "w.npy")
    again = import_npy(tmp_path / "w.npy", VALID, MODELS)
    assert again.grouping.scheme == "relation-direction"
    group = again.grouping.groups_of(VALID.queries)
    assert np.allclose(again.normalised()[group], weights.normalised()[grouping.groups_of(VALID.queries)], atol=1e-6)


@pytest.mark.parametrize("rows", [1, R - 1, R, R + 1, 2 * R - 1, 2 * R])
def test_a_short_table_falls_back_to_equal_weights(tmp_path, rows):
    table = np.arange(1, 3 * rows + 1).reshape(rows, 3)
    np.save(tmp_path / "w.npy", table)
    weights = import_npy(tmp_path / "w.npy", VALID, MODELS)
    by_relation = rows <= R
    assert weights.grouping.scheme == ("relation" if by_relation else "relation-direction")
    assert weights.own.sum() == rows
    assert weights.fallback.tolist() == [1, 1, 1]
    for r in range(R):
        for d in (0, 1):
            row = r if by_relation or d == 0 else r + R
            expected = table[row] / table[row].sum() if row < rows else np.full(3, 1 / 3)
            found = weights.normalised()[weights.grouping.table[r, d]]
            assert np.allclose(found, expected, atol=2 / WEIGHT_LIMIT)


def test_the_columns_of_an_npy_are_the_models_named(tmp_path):
    np.save(tmp_path / "w.npy", np.tile([3.0, 1.0], (R, 1)).astype(np.float32))
    weights = import_npy(tmp_path / "w.npy", VALID, ["gamma", "alpha"], "log")
    assert weights.models == ("gamma", "alpha")
    assert (weights.input, weights.settings["input"]) == ("log", "log")
    assert weights.gap_scales.tolist() == VALID.gap_scales[[2, 0]].tolist()
    ranks = weights.answer_ranks(VALID.select_models(["alpha", "gamma"]))
    other = replace(weights, models=("alpha", "gamma"), table=weights.table[:, ::-1], fallback=weights.fallback[::-1])
    other = replace(other, gap_scales=weights.gap_scales[::-1])
    assert ranks.ahead.tolist() == other.answer_ranks(VALID.select_models(["alpha", "gamma"])).ahead.tolist()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones(3), r"w\.npy: found an array of shape \(3,\), expected \(rows, 3\): a column for each"),
        (np.ones((4, 2)), r"w\.npy: found an array of shape \(4, 2\), expected \(rows, 3\)"),
        (np.ones((9, 3)), r"found an array of shape \(9, 3\), expected .* at most 8 rows, one per relation"),
        (np.ones((0, 3)), r"found an array of shape \(0, 3\)"),
        (np.array(1.0), r"found an array of shape \(\)"),
        (np.ones((2, 3), dtype=bool), r"found values of type bool, expected real numbers"),
        (np.ones((2, 3), dtype=complex), r"found values of type complex128, expected real numbers"),
        (np.array([[1, 1, 1], [1, -0.5, 1]]), r"w\.npy, row 1: found the negative weight -0\.5, expected"),
        (np.array([[1, 1, 1], [1, 1, 1], [0, 0, 0]]), r"w\.npy, row 2: all weights of a vector are 0"),
        (np.array([[np.nan, 1, 1]]), r"w\.npy, row 0: found NaN or an infinite weight, expected finite numbers"),
        (np.array([[1, 1, 1], [1, np.inf, 1]]), r"w\.npy, row 1: found NaN or an infinite weight"),
    ],
)  # fmt: skip
def test_a_wrong_npy_is_refused_with_file_and_place(tmp_path, table, message):
    np.save(tmp_path / "w.npy", table)
    with pytest.raises(WeightsError, match=message):
        import_npy(tmp_path / "w.npy", VALID, MODELS)


def test_npy_files_that_cannot_be_read_are_refused(tmp_path):
    np.save(tmp_path / "w.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"w\.npy cannot be read as a plain \.npy array"):
        import_npy(tmp_path / "w.npy", VALID, MODELS)
    with pytest.raises(InputError, match=r"none\.npy does not exist"):
        import_npy(tmp_path / "none.npy", VALID, MODELS)


@pytest.mark.parametrize(
    ("models", "error", "message"),
    [
        (["alpha", "beta", "gama"], RanksError, r"unknown model 'gama'; did you mean 'gamma'\?"),
        (["alpha", "beta", "alpha"], WeightsError, r"w\.npy: a model is named twice among alpha, beta, alpha"),
    ],
)
def test_the_models_of_an_npy_are_checked(tmp_path, models, error, message):
    np.save(tmp_path / "w.npy", np.ones((4, 3)))
    with pytest.raises(error, match=message):
        import_npy(tmp_path / "w.npy", VALID, models)


HEADER = "group,queries,alpha,beta,gamma\n"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", WeightsError, r"w\.csv: the first line is \[\], expected group, queries and the names of the models"),
        ("relation,alpha\n", WeightsError, r"the first line is \['relation', 'alpha'\], expected group"),
        ("group,queries\n", WeightsError, r"the first line is \['group', 'queries'\]"),
        (HEADER + "relation 0,6,1,2\n", WeightsError, r"w\.csv, line 2: found 4 fields, expected 5"),
        (HEADER + "relation 0,6,1,2,3,4\n", WeightsError, r"w\.csv, line 2: found 6 fields, expected 5"),
        (HEADER + "relation 0,6,1,2,x\n", WeightsError, r"w\.csv, line 2: found \['1', '2', 'x'\], expected numbers"),
        (HEADER + "relation 0,6,1,2,\n", WeightsError, r"w\.csv, line 2: found \['1', '2', ''\], expected numbers"),
        (HEADER + "relation 0,6,1,2,3\nrelation 1,6,1,-2,3\n", WeightsError, r"line 3: found the negative weight -2"),
        (HEADER + "relation 0,6,0,0,0\n", WeightsError, r"line 2: all weights of a vector are 0; at least one model"),
        (HEADER + "relation 0,6,nan,0,1\n", WeightsError, r"line 2: found NaN or an infinite weight"),
        (HEADER + "relation 0,6,1,inf,1\n", WeightsError, r"line 2: found NaN or an infinite weight"),
        (HEADER + "(fallback),,0,0,0\n", WeightsError, r"line 2: all weights of a vector are 0"),
        (HEADER + "(fallback),,1,0,0\n(fallback),,0,1,0\n", WeightsError, r"group '\(fallback\)' has two lines"),
        (HEADER + "relation 7,6,1,1,1\n", WeightsError, r"line 2: unknown group 'relation 7'; did you mean"),
        (HEADER + "relation 0 [tail],6,1,1,1\n", WeightsError, r"unknown group 'relation 0 \[tail\]'; did you mean"),
        (HEADER + "relation 0,6,1,1,1\nrelation 0,6,1,1,1\n", WeightsError, r"line 3: group 'relation 0' has two"),
        ("group,alpha,beta,gama\nrelation 0,1,1,1\n", RanksError, r"unknown model 'gama'; did you mean 'gamma'\?"),
        ("group,alpha,alpha\nrelation 0,1,1\n", WeightsError, r"w\.csv: a model is named twice among alpha, alpha"),
    ],
)  # fmt: skip
def test_a_wrong_csv_is_refused_with_file_and_line(tmp_path, text, error, message):
    (tmp_path / "w.csv").write_text(text)
    with pytest.raises(error, match=message):
        import_csv(tmp_path / "w.csv", VALID, "relation")


def test_csv_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "w.csv").write_bytes(b"group,alpha\n\xff\xfe,1\n")
    with pytest.raises(WeightsError, match=r"w\.csv cannot be read as CSV: 'utf-8' codec can't decode"):
        import_csv(tmp_path / "w.csv", VALID, "relation")
    with pytest.raises(WeightsError, match=r"none\.csv cannot be read as CSV: .*No such file"):
        import_csv(tmp_path / "none.csv", VALID, "relation")
    (tmp_path / "w.csv").write_text(HEADER)
    with pytest.raises(DatasetError, match="unknown grouping 'relatoin'"):
        import_csv(tmp_path / "w.csv", VALID, "relatoin")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1,2,3", [1, 2, 3]),
        ("1.0,2,3e0", [1, 2, 3]),
        (f"{WEIGHT_LIMIT},0,1", [WEIGHT_LIMIT, 0, 1]),
        (f"{2 * WEIGHT_LIMIT},0,{WEIGHT_LIMIT}", [2, 0, 1]),
        ("0.5,0.25,0", [2, 1, 0]),
        ("1e300,5e299,0", [2, 1, 0]),
        ("1e-300,5e-301,0", [2, 1, 0]),
    ],
)
def test_any_numbers_serve_as_weights(tmp_path, written, read):
    (tmp_path / "w.csv").write_text(f"group,alpha,beta,gamma\nrelation 2,{written}\n")
    weights = import_csv(tmp_path / "w.csv", VALID, "relation")
    assert weights.table[2].tolist() == read
    assert weights.own.tolist() == [False, False, True, False]
    assert weights.fallback.tolist() == [1, 1, 1]


def test_a_csv_from_a_spreadsheet_is_read(tmp_path):
    text = "group,gamma,queries,alpha\r\nrelation 1,1,,3\r\n\r\n"
    (tmp_path / "w.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    weights = import_csv(tmp_path / "w.csv", VALID, "relation", "sqrt")
    assert weights.models == ("gamma", "alpha")
    assert weights.table[1].tolist() == [1, 3]
    assert weights.input == "sqrt"


def test_an_interrupted_export_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "w.npy"
    export_npy(numbered(BY_RELATION), path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RelensError, match=r"cannot write .*w\.npy: No space left on device"):
        export_npy(numbered(BY_DIRECTION), path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["w.npy"]
