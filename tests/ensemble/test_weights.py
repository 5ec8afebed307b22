"""Weights: what is written is what is read, and they are never applied to ranks they do not belong to."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from relens.data.grouping import Grouping
from relens.ensemble.inputs.score import SCORE
from relens.ensemble.objective import answer_ranks
from relens.ensemble.search import search
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, RanksError, WeightsError
from relens.records import Provenance
from tests.ensemble.cases import queries_of, random_case, without_gaps
from tests.random_packs import changed

RELATIONS = ("likes", "né", "knows")


@pytest.fixture
def packed():
    """Ranks of three models for three relations, the last one without queries."""
    return changed(random_case(1, n_queries=12, n_relations=2).packed, relations=RELATIONS)


@pytest.fixture
def weights(packed):
    """Weights with and without rows of their own."""
    grouping = Grouping.by_relation_and_direction(RELATIONS)
    table = np.array([[1, 2, 3], [4, 0, 6], [7, 8, 9], [0, 0, 2**20], [7, 8, 9], [7, 8, 9]])
    return EnsembleWeights(
        models=packed.models,
        relations=RELATIONS,
        grouping=grouping,
        table=table,
        own=np.array([True, True, False, True, False, False]),
        fallback=np.array([7, 8, 9]),
        support=np.array([5, 4, 0, 3, 0, 0]),
        input="score",
        settings={"method": "dsc", "kappa": 10.0, "cross_validation": {"score": {"10.0": 0.5}}},
        dataset=("toy", "f00d"),
        gap_scales=packed.gap_scales,
        notes=("3 of 6 groups have no validation queries: global weights",),
    )


def assert_same(one, other):
    for name in ("table", "own", "fallback", "support", "gap_scales"):
        left, right = getattr(one, name), getattr(other, name)
        if left is None or right is None:
            assert left is right
        else:
            assert left.dtype == right.dtype
            assert np.array_equal(left, right)
    for name in ("models", "relations", "input", "settings", "dataset", "notes"):
        assert getattr(one, name) == getattr(other, name)
    assert one.grouping.scheme == other.grouping.scheme
    assert one.grouping.labels == other.grouping.labels
    assert np.array_equal(one.grouping.table, other.grouping.table)


# --- round trips ----------------------------------------------------------------------------------------------------


def test_json_gives_back_the_same_weights(weights):
    value = json.loads(json.dumps(weights.to_json(), allow_nan=False))
    assert_same(EnsembleWeights.from_json(value, "here"), weights)


def test_a_saved_file_gives_back_the_same_weights(weights, tmp_path):
    path = tmp_path / "sub" / "weights.json"
    weights.save(path)
    assert_same(EnsembleWeights.load(path), weights)
    assert [file.name for file in path.parent.iterdir()] == ["weights.json"]


def test_weights_without_gaps_and_by_a_users_groups(weights):
    grouping = Grouping("file", ("one", "knows"), np.array([[0, 0], [0, 0], [1, 1]], dtype=np.int32))
    plain = EnsembleWeights(
        models=weights.models,
        relations=RELATIONS,
        grouping=grouping,
        table=np.array([[1, 0, 0], [0, 1, 1]]),
        own=np.array([True, False]),
        fallback=np.array([0, 1, 1]),
        support=np.array([9, 0]),
    )
    assert_same(EnsembleWeights.from_json(json.loads(json.dumps(plain.to_json())), "here"), plain)


def test_files_are_keyed_by_labels_and_say_what_they_are(weights):
    value = weights.to_json()
    assert (value["kind"], value["format"]) == ("relens weights", 1)
    assert value["groups"]["né [head]"] == {"queries": 3, "weights": {"m0": 0, "m1": 0, "m2": 2**20}}
    assert "knows [tail]" not in value["groups"]
    assert value["fallback"] == {"m0": 7, "m1": 8, "m2": 9}
    assert value["relations"][1] == {"relation": "né", "tail": "né [tail]", "head": "né [head]"}


def test_the_times_of_the_search_are_in_a_log_of_their_own(weights, tmp_path):
    timed = replace(weights, trace=np.array([[0.0, 1.0, 0.25], [0.125, 9.0, 0.3]]))
    assert timed.to_json() == weights.to_json()
    log = tmp_path / "w.log.jsonl"
    timed.save_log(log)
    assert [json.loads(line) for line in log.read_text().splitlines()] == [
        {"seconds": 0.0, "evaluations": 1, "mrr": 0.25}, {"seconds": 0.125, "evaluations": 9, "mrr": 0.3},
    ]  # fmt: skip
    weights.save_log(log)
    assert not log.exists()


def test_the_trace_in_files_of_an_older_relens_is_skipped(weights):
    assert_same(EnsembleWeights.from_json({**weights.to_json(), "trace": [[0.5, 1.0, 0.25]]}, "here"), weights)


@pytest.mark.parametrize("method", ["dsc", "mean"])
def test_a_fit_survives_the_file(tmp_path, method):
    packed = random_case(2).packed
    fitted = search(packed, method=method, regularise=3.0)
    fitted.save(tmp_path / "w.json")
    loaded = EnsembleWeights.load(tmp_path / "w.json")
    # Only groups with weights of their own are written, their queries with them.
    assert_same(loaded, replace(fitted, support=np.where(fitted.own, fitted.support, 0)))
    assert np.array_equal(loaded.answer_ranks(packed).realistic, fitted.answer_ranks(packed).realistic)


def test_normalised_rows_sum_to_one(weights):
    assert weights.normalised()[:2].tolist() == [[1 / 6, 2 / 6, 3 / 6], [0.4, 0.0, 0.6]]
    assert weights.normalised().sum(axis=1) == pytest.approx(np.ones(6))


# --- application ----------------------------------------------------------------------------------------------------


def test_every_query_is_ranked_with_the_weights_of_its_group(weights, packed):
    group = 2 * packed.queries.relation + packed.queries.direction
    expected = answer_ranks(packed, weights.table, group.astype(np.int32), input=SCORE)
    for jobs in (1, 2):
        found = weights.answer_ranks(packed, jobs=jobs)
        assert np.array_equal(found.ahead, expected.ahead)
        assert np.array_equal(found.tied, expected.tied)


def test_models_in_another_order_are_aligned_by_name(weights, packed):
    turned = packed.select_models(["m2", "m0", "m1"])
    mine = weights.aligned_to(turned)
    assert mine.models == ("m2", "m0", "m1")
    assert mine.table.tolist() == weights.table[:, [2, 0, 1]].tolist()
    assert mine.fallback.tolist() == [9, 7, 8]
    assert np.array_equal(mine.gap_scales, turned.gap_scales)
    assert np.array_equal(weights.answer_ranks(turned).realistic, weights.answer_ranks(packed).realistic)


def test_relations_in_another_order_are_aligned_by_name(weights, packed):
    """The same data set may number its relations otherwise; its fingerprint does not see it."""
    order = [2, 0, 1]
    queries = replace(packed.queries, relation=np.array([1, 2, 0], dtype=np.int32)[packed.queries.relation])
    renumbered = changed(packed, relations=tuple(RELATIONS[r] for r in order), queries=queries)
    mine = weights.aligned_to(renumbered)
    assert mine.relations == renumbered.relations
    assert np.array_equal(weights.answer_ranks(renumbered).realistic, weights.answer_ranks(packed).realistic)
    assert_same(mine.aligned_to(packed), weights)


def test_unequal_scales_are_aligned_with_their_models(weights, packed):
    scales = np.array([0.5, 1.0, 2.0])
    fitted, other = replace(weights, gap_scales=scales), changed(packed, gap_scales=scales)
    assert fitted.aligned_to(other.select_models(["m1", "m2", "m0"])).gap_scales.tolist() == [1.0, 2.0, 0.5]


@pytest.mark.parametrize(
    ("models", "name"), [(["m0", "m1"], "m2"), (["m0", "m1", "m2", "m3"], "m3"), (["m0", "m1", "m3"], "m2")]
)
def test_other_models_are_refused_by_name(weights, packed, models, name):
    extra = changed(
        packed,
        models=("m0", "m1", "m2", "m3"),
        answer=np.vstack([packed.answer, packed.answer[:1]]),
        contested=np.vstack([packed.contested, packed.contested[:1]]),
        gaps=np.vstack([packed.gaps, packed.gaps[:1]]),
        gap_scales=np.append(packed.gap_scales, 1.0),
    )
    message = f"the weights are for models ['m0', 'm1', 'm2'], the ranks have {models}: '{name}' is in one of them only"
    with pytest.raises(WeightsError, match=re.escape(message)):
        weights.answer_ranks(extra.select_models(models))


def test_other_relations_are_refused_by_name(weights, packed):
    other = changed(packed, relations=("likes", "né", "hates"))
    with pytest.raises(WeightsError, match=r"different relations, for instance \['hates', 'knows'\]: fit again"):
        weights.aligned_to(other)
    with pytest.raises(WeightsError, match="different relations"):
        weights.aligned_to(changed(packed, relations=RELATIONS[:2]))


@pytest.mark.parametrize("name", ["toy", "toy2"])
def test_another_data_set_is_refused_by_fingerprint(weights, packed, name):
    other = changed(packed, provenance=Provenance(name, "beef", "test"))
    message = f"the weights were fitted on 'toy' (f00d), the ranks are of '{name}' (beef). Use the ranks of the"
    with pytest.raises(WeightsError, match=re.escape(message)):
        weights.aligned_to(other)


def test_the_test_split_of_the_same_data_set_is_welcome(weights, packed):
    test = changed(packed, provenance=Provenance("toy by another name", "f00d", "test"))
    assert np.array_equal(weights.answer_ranks(test).realistic, weights.answer_ranks(packed).realistic)


def test_gaps_of_other_scales_are_refused(weights, packed):
    message = "score gaps of weights and ranks have different scales: pack both with those of valid"
    with pytest.raises(WeightsError, match=message):
        weights.aligned_to(changed(packed, gap_scales=packed.gap_scales * 2))
    with pytest.raises(WeightsError, match=message):
        replace(weights, gap_scales=None).aligned_to(packed)
    with pytest.raises(WeightsError, match=message):
        weights.aligned_to(changed(packed, gap_scales=None))
    by_rank = replace(weights, input="rank")
    assert by_rank.aligned_to(changed(packed, gap_scales=packed.gap_scales * 2)).input == "rank"


def test_scores_need_gaps(weights, packed):
    with pytest.raises(RanksError, match="input 'score' needs score gaps"):
        weights.aligned_to(without_gaps(packed))


def test_relations_without_validation_queries_use_the_fallback(weights, packed):
    n = packed.n_queries
    asked = changed(packed, queries=queries_of([2] * n, [0] * n, [0] * n))
    expected = answer_ranks(packed, np.array([7, 8, 9]), input=SCORE)
    assert np.array_equal(weights.answer_ranks(asked).realistic, expected.realistic)


# --- damaged files --------------------------------------------------------------------------------------------------


def damaged(weights, change):
    """Return the JSON value after ``change`` has been at it."""
    value = json.loads(json.dumps(weights.to_json()))
    change(value)
    return value


def put(*path, to):
    def change(value):
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def drop(*path):
    def change(value):
        for key in path[:-1]:
            value = value[key]
        del value[path[-1]]

    return change


GROUP = ("groups", "likes [tail]", "weights")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("format", to=2), "file has format 2, this relens reads format 1. Use relens"),
        (put("kind", to="cake"), "file is not a 'relens weights' record: its kind is 'cake'"),
        (drop("kind"), "file is not a 'relens weights' record: its kind is None"),
        (put(*GROUP, "m1", to=-2), "file, group 'likes [tail]': found the negative weight -2"),
        (put(*GROUP, to={"m0": 0, "m1": 0, "m2": 0}), "file, group 'likes [tail]': all weights of a vector are 0"),
        (put("fallback", to={"m0": 0, "m1": 0, "m2": 0}), "file, fallback: all weights of a vector are 0"),
        (put(*GROUP, "m1", to=0.5), "found [1, 0.5, 3], expected whole numbers from 0 to 1048576"),
        (put(*GROUP, "m1", to=True), "found [1, True, 3], expected whole numbers"),
        (put(*GROUP, "m1", to="2"), "found [1, '2', 3], expected whole numbers"),
        (put(*GROUP, "m1", to=None), "found [1, None, 3], expected whole numbers"),
        (put(*GROUP, "m1", to=2**20 + 1), "found [1, 1048577, 3], expected whole numbers"),
        (drop(*GROUP, "m1"), "group 'likes [tail]': found weights of ['m0', 'm2'], expected those of ['m0', 'm1',"),
        (put("fallback", "m9", to=1), "file, fallback: found weights of ['m0', 'm1', 'm2', 'm9'], expected those of"),
        (put("groups", "likes [tial]", to={"queries": 1, "weights": {}}), "unknown group 'likes [tial]'; did you mean"),
        (put("models", to=["m0", "m1", "m1", "m2"]), "file: a model is named twice among m0, m1, m1, m2"),
        (put("gap_scales", to=[1.0]), "file is damaged (ValueError"),
        (put("settings", to=7), "file is damaged (TypeError"),
        (put("input", to="ranks"), "file: found the input 'ranks', expected one of rank, log, sqrt, rrf, score"),
        (put("input", to=5), "file: found the input 5, expected one of rank"),
        (drop("settings"), "file is damaged (KeyError('settings')). Search again"),
        (put("groups", "likes [tail]", "queries", to="many"), "file is damaged (ValueError"),
        (put("gap_scales", to=["wide"]), "file is damaged (ValueError"),
        (put("groups", to=[1]), "file is damaged (AttributeError"),
        (put("models", to=7), "file is damaged (TypeError"),
        (drop("relations", 0, "head"), "file is damaged (KeyError('head'))"),
        (put("dataset", to="toy"), "file is damaged (TypeError"),
        (put("models", to=["m0", "m1", None]), "file is damaged (TypeError('found None, expected a text'))"),
        (put("relations", 0, "relation", to=3), "file is damaged (TypeError('found 3, expected a text'))"),
        (put("relations", 0, "tail", to=["x"]), "file is damaged (TypeError"),
        (put("grouping", to=None), "file is damaged (TypeError"),
        (put("dataset", "name", to=1.5), "file is damaged (TypeError"),
        (put("notes", to="note"), "file is damaged (TypeError"),
        (put("groups", "likes [tail]", "queries", to=10**30), "file is damaged (ValueError"),
        (put("groups", "likes [tail]", "queries", to=-1), "file is damaged (ValueError"),
        (put(*GROUP, "m1", to=10**30), "expected whole numbers from 0 to 1048576"),
        (put("gap_scales", to=[1.0, float("nan"), 1.0]), "file is damaged (ValueError"),
        (put("gap_scales", to=[10**400] * 3), "file is damaged"),
    ],
)  # fmt: skip
def test_damaged_weights_are_refused_with_the_place(weights, change, message):
    with pytest.raises(WeightsError, match=re.escape(message)):
        EnsembleWeights.from_json(damaged(weights, change), "file")


def test_a_truncated_file_is_refused_by_name(weights, tmp_path):
    path = tmp_path / "w.json"
    weights.save(path)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(InputError, match=r"weights .*w\.json is not readable JSON"):
        EnsembleWeights.load(path)
    with pytest.raises(InputError, match=r"weights .*none\.json does not exist"):
        EnsembleWeights.load(tmp_path / "none.json")


def test_a_file_with_an_error_is_named(weights, tmp_path):
    path = tmp_path / "w.json"
    path.write_text(json.dumps(damaged(weights, put("format", to=99))))
    with pytest.raises(WeightsError, match=re.escape(f"{path} has format 99")):
        EnsembleWeights.load(path)


def test_a_file_that_cannot_be_written_leaves_the_old_one(weights, tmp_path):
    path = tmp_path / "w.json"
    weights.save(path)
    before = path.read_text()
    with pytest.raises(ValueError, match="Out of range float values"):
        replace(weights, settings={"kappa": np.nan}).save(path)
    assert path.read_text() == before
    assert [file.name for file in tmp_path.iterdir()] == ["w.json"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"table": np.zeros((6, 3), dtype=np.int64)}, "with a positive one in each vector"),
        ({"fallback": np.array([1, -1, 1])}, "weights must be whole numbers from 0 to 1048576"),
        ({"fallback": np.array([2**21, 1, 1])}, "weights must be whole numbers from 0 to 1048576"),
        (
            {"table": np.ones((5, 3), dtype=np.int64)},
            r"table of weights has the shape \(5, 3\) of int64, expected \(6, 3\)",
        ),
        ({"table": np.ones((6, 3))}, r"table of weights has the shape \(6, 3\) of float64"),
        ({"own": np.array([True])}, r"the own of weights has the shape \(1,\)"),
        ({"relations": ("likes",)}, "other groups than its 6, or other relations"),
    ],
)
def test_weights_that_kernels_cannot_use_are_refused(weights, changes, message):
    with pytest.raises(WeightsError, match=message):
        replace(weights, **changes)


def test_groups_beyond_the_table_are_refused(weights):
    beyond = replace(weights.grouping, table=weights.grouping.table + 1)
    with pytest.raises(WeightsError, match="other groups than its 6"):
        replace(weights, grouping=beyond)
