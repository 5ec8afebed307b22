"""Evaluations, compared with loops over the queries of every part."""

import copy
import json
import pickle
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import EntryPoint
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.data.grouping import Grouping
from relens.data.queries import Queries
from relens.ensemble.search import search
from relens.errors import InputError, RanksError
from relens.evaluation import Evaluation, Metrics, NamedRanks, evaluate, evaluate_ranks, relation_spread
from relens.metrics import METRICS, Metric
from relens.packs.pack import PackArrays, PackedRanks, PackHeader
from relens.ranking.answer_ranks import AnswerRanks
from relens.records import Provenance
from relens.registry import Registry
from relens.significance import bootstrap_interval
from relens.tables import comparison_table, evaluation_table
from tests import simulated
from tests.oracles import tie_rules

RELATIONS = ("_hypernym", "/film/film_genre", "a|b")
CARDINALITIES = ("1-N", "N-N", "1-N")
SPLIT = Provenance("toy", "0123", "test", ("train", "valid", "test"))

Counts = list[tuple[int, int]]


def pack(queries: Queries, cardinalities: tuple[str, ...] = CARDINALITIES) -> PackedRanks:
    """Pack one model whose ranks do not matter: evaluation reads the queries and what is known about them."""
    n = len(queries)
    header = PackHeader(("transe",), RELATIONS, queries, SPLIT, cardinalities=cardinalities)
    arrays = PackArrays(
        n_candidates=np.full(n, 100, dtype=np.int32),
        answer=np.full((1, n), 2, dtype=np.uint16),
        always_ahead=np.zeros(n, dtype=np.int32),
        offsets=np.zeros(n + 1, dtype=np.int64),
        contested=np.zeros((1, 0), dtype=np.uint16),
    )
    return PackedRanks(header, arrays)


def triples(*relation_ids: int) -> Queries:
    return Queries.from_triples(np.array([(i, r, i + 1) for i, r in enumerate(relation_ids)]).reshape(-1, 3))


def answer_ranks(counts: Counts) -> AnswerRanks:
    ahead, tied = np.array(counts, dtype=np.int64).reshape(-1, 2).T
    return AnswerRanks(ahead, tied)


def check(metrics: Metrics, counts: Counts) -> None:
    """Compare with exact fractions over the (ahead, tied) counts of the queries meant."""
    ranks = [tie_rules(ahead, tied) for ahead, tied in counts]

    def mean(value: Callable[[dict[str, Fraction]], Fraction | bool]) -> Any:
        return pytest.approx(float(Fraction(sum(map(value, ranks))) / len(ranks)), abs=1e-13, rel=1e-13)

    assert metrics.queries == len(counts)
    assert metrics.mrr == mean(lambda rank: 1 / rank["realistic"])
    assert metrics.hits_at_1 == mean(lambda rank: rank["realistic"] <= 1)
    assert metrics.hits_at_3 == mean(lambda rank: rank["realistic"] <= 3)
    assert metrics.hits_at_10 == mean(lambda rank: rank["realistic"] <= 10)
    assert metrics.mean_rank == mean(lambda rank: rank["realistic"])
    assert metrics.mrr_optimistic == mean(lambda rank: 1 / rank["optimistic"])
    assert metrics.mrr_pessimistic == mean(lambda rank: 1 / rank["pessimistic"])


@st.composite
def splits(draw: st.DrawFn) -> tuple[Queries, Counts]:
    """Draw 1-8 triples over three relations, some of which ask nothing, and any subset of their queries."""
    queries = triples(*draw(st.lists(st.integers(0, 2), min_size=1, max_size=8)))
    kept = draw(st.lists(st.sampled_from(range(len(queries))), min_size=1, unique=True))
    pairs = st.tuples(st.integers(0, 12), st.integers(0, 4))
    return queries[np.array(kept)], draw(st.lists(pairs, min_size=len(kept), max_size=len(kept)))


@settings(max_examples=60, deadline=None)
@given(splits(), st.sampled_from(["relation", "relation-direction"]))
def test_every_part_equals_a_loop_over_its_queries(split: tuple[Queries, Counts], scheme: str) -> None:
    queries, counts = split
    found = evaluate_ranks(
        NamedRanks("dsc", answer_ranks(counts)), pack(queries), Grouping.from_spec(scheme, RELATIONS), resamples=20
    )
    directions = [("tail", "head")[d] for d in queries.direction]
    relations = [RELATIONS[r] for r in queries.relation]
    pairs = [f"{r} [{d}]" for r, d in zip(relations, directions, strict=True)]
    expected = {
        "by_direction": directions,
        "by_relation": relations,
        "by_group": relations if scheme == "relation" else pairs,
        "by_cardinality": [CARDINALITIES[r] for r in queries.relation],
    }
    check(found.overall, counts)
    for part, labels in expected.items():
        metrics = getattr(found, part)
        assert set(metrics) == set(labels)
        for label in metrics:
            check(metrics[label], [c for c, of in zip(counts, labels, strict=True) if of == label])
    assert found.interval == bootstrap_interval(1 / answer_ranks(counts).realistic, queries.triple, resamples=20)


def test_parts_with_the_same_ranks_share_their_metrics() -> None:
    """Most of very many relations have few queries; a ``Metrics`` for each of them takes minutes and gigabytes."""
    found = evaluate_ranks(
        NamedRanks("x", answer_ranks([(1, 0), (0, 0), (1, 0), (0, 0), (0, 1), (0, 0)])),
        pack(triples(0, 1, 2)), Grouping.by_relation(RELATIONS), resamples=20,
    )  # fmt: skip
    first, second, third = (found.by_relation[relation] for relation in RELATIONS)
    assert first is second
    assert third != first


def test_metrics_of_an_index_and_of_a_mask_agree() -> None:
    counts = [(0, 0), (4, 1), (9, 0), (2, 2)]
    ranks = answer_ranks(counts)
    assert Metrics.measure(ranks, np.array([1, 3])) == Metrics.measure(ranks, np.array([False, True, False, True]))
    check(Metrics.measure(ranks, np.array([1, 3])), [counts[1], counts[3]])


@pytest.mark.parametrize("n_candidates", [1, 2, 100])
def test_all_candidates_tied_is_worth_the_middle(n_candidates: int) -> None:
    queries = triples(0, 1)
    ranks = answer_ranks([(0, n_candidates - 1)] * 4)
    found = evaluate_ranks(NamedRanks("constant", ranks), pack(queries), Grouping.by_relation(RELATIONS))
    assert found.overall.mrr == pytest.approx(2 / (n_candidates + 1))
    assert found.interval == pytest.approx((2 / (n_candidates + 1), 2 / (n_candidates + 1)))


def test_a_single_query_is_a_split() -> None:
    queries = triples(1)[np.array([1])]
    found = evaluate_ranks(
        NamedRanks("dsc", answer_ranks([(1, 0)])),
        pack(queries),
        Grouping.by_relation_and_direction(RELATIONS),
        reference=NamedRanks("rotate", answer_ranks([(3, 0)])),
    )
    assert list(found.by_group) == ["/film/film_genre [head]"]
    assert list(found.by_direction) == ["head"]
    assert found.interval == (0.5, 0.5)
    assert found.paired is not None
    assert (found.paired.difference, found.paired.p_value) == (0.25, 1)


@pytest.mark.parametrize(("cardinalities", "known"), [((), []), (("", "1-1", "N-N"), ["1-1"])])
def test_unknown_cardinalities_are_left_out(cardinalities: tuple[str, ...], known: list[str]) -> None:
    packed, grouping = pack(triples(0, 1), cardinalities), Grouping.by_relation(RELATIONS)
    found = evaluate_ranks(NamedRanks("dsc", answer_ranks([(0, 0)] * 4)), packed, grouping)
    assert list(found.by_cardinality) == known


def test_paired_difference_is_the_difference_of_the_mrr() -> None:
    rng = np.random.default_rng(0)
    packed, grouping = pack(triples(*rng.integers(0, 3, 40))), Grouping.by_relation(RELATIONS)
    ours, theirs = (AnswerRanks(rng.integers(0, 9, 80), rng.integers(0, 2, 80)) for _ in range(2))
    found = evaluate_ranks(NamedRanks("dsc", ours), packed, grouping, reference=NamedRanks("rotate", theirs))
    assert found.paired is not None
    assert found.paired.reference == "rotate"
    assert found.paired.difference == pytest.approx(found.overall.mrr - Metrics.measure(theirs).mrr)
    assert found.answer_ranks is ours


def toy_evaluation(**options: Any) -> Evaluation:
    return evaluate_ranks(
        NamedRanks(
            "dsc",
            answer_ranks([(0, 0), (3, 1), (0, 2), (5, 0)]),
            {"method": "dsc", "searcher": "sweep", "regularise": 10.0},
        ),
        pack(triples(0, 2)),
        Grouping.by_relation_and_direction(RELATIONS),
        **options,
    )


@pytest.mark.parametrize("reference", [None, NamedRanks("rotate", answer_ranks([(1, 0)] * 4))])
def test_json_and_back_is_the_same_evaluation(reference: NamedRanks | None) -> None:
    evaluation = toy_evaluation(reference=reference)
    plain = evaluation.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert "answer_ranks" not in plain
    back = Evaluation.from_json(plain)
    assert back == evaluation
    assert back.interval.low == evaluation.interval.low
    assert back.answer_ranks is None


def test_json_names_what_a_number_needs() -> None:
    plain = toy_evaluation(seed=7).to_json()
    assert plain["provenance"]["filter_splits"] == ["train", "valid", "test"]
    assert (plain["tie_rule"], plain["grouping"], plain["seed"]) == ("mean", "relation-direction", 7)
    assert plain["settings"]["searcher"] == "sweep"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("kind", "is not a 'relens evaluation' record: its kind is 'odd'"),
        ("format", "has format 'odd', this relens reads format 1"),
        ("tie_rule", "has the tie rule 'odd', expected 'mean'"),
    ],
)
def test_json_of_another_kind_raises_an_error(key: str, message: str) -> None:
    with pytest.raises(InputError, match=f"{message}.* [Ee]valuate again with `relens evaluate RUN`"):
        Evaluation.from_json({**toy_evaluation().to_json(), key: "odd"})


@pytest.mark.parametrize(
    "damage",
    [
        {"overall": {"mrr": 1}},
        {"overall": {"queries": 4}},
        {"overall": {"queries": 4, "mrr": "high"}},
        {"by_group": None},
        {"interval": [1, 2, 3]},
        {"interval": [1, None]},
        {"name": None},
        {"resamples": "many"},
        {"seed": 10**30},
        {"settings": []},
        {"paired": {}},
        {"paired": {"reference": "a", "difference": "x", "interval": [0, 1], "p_value": 0.5, "exact": True}},
        {"overall": {"queries": 4, "mrr": float("nan")}},
        {"by_group": {"likes": {"queries": 1.5, "mrr": 1}}},
        {"provenance": {"dataset": 1}},
    ],
)
def test_damaged_json_raises_an_error(damage: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="the evaluation is damaged"):
        Evaluation.from_json({**toy_evaluation().to_json(), **damage})


def test_a_file_may_lack_a_metric_and_have_one_that_is_not_installed() -> None:
    value = toy_evaluation().to_json()
    del value["overall"]["hits_at_3"]
    value["overall"]["median_rank"] = 2.5
    found = Evaluation.from_json(value)
    assert found.to_json() == value
    assert found.overall.get("hits_at_3") is None
    assert found.overall.median_rank == 2.5
    shown = {cell.text for cell in evaluation_table(found).cells()[0]}
    assert "–" in shown
    with pytest.raises(AttributeError, match="no metric 'hits_at_3'"):
        found.overall.hits_at_3  # noqa: B018


@pytest.fixture
def median_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a metric of another distribution."""
    with_median: Registry[Metric] = Registry("metric", "metrics", Metric, "relens.metrics")
    point = EntryPoint("median_rank", "tests.test_metrics:MEDIAN", "relens.metrics")
    monkeypatch.setattr("relens.registry.entry_points", lambda group: [point] if group == point.group else [])
    for module in ("relens.evaluation", "relens.tables.results"):
        monkeypatch.setattr(f"{module}.METRICS", with_median)


@pytest.mark.usefixtures("median_rank")
def test_a_metric_of_another_distribution_is_measured_and_shown() -> None:
    found = toy_evaluation()
    assert found.overall.median_rank == found.to_json()["overall"]["median_rank"] == 3.25
    assert found.by_direction["tail"].median_rank == 1.5
    shown = evaluation_table(found)
    assert [column.heading for column in shown.columns][-1] == "median"
    assert shown.rows[0].values[-1] == 3.25
    assert "median" in [column.heading for column in comparison_table([found]).columns]
    assert Evaluation.from_json(found.to_json()) == found


def test_metrics_are_a_mapping_with_attributes() -> None:
    metrics = Metrics.measure(answer_ranks([(0, 0), (3, 1)]))
    assert list(metrics) == list(METRICS)
    assert dict(metrics)["mrr"] == metrics.mrr == metrics["mrr"]
    assert metrics.to_json() == {"queries": 2, **metrics}
    assert {"mrr", "hits_at_10", "queries"} <= set(dir(metrics))
    assert repr(metrics).startswith("Metrics(queries=2, mrr=0.6")
    assert copy.deepcopy(metrics) == pickle.loads(pickle.dumps(metrics)) == metrics
    assert metrics != Metrics(3, metrics)
    assert metrics != dict(metrics)


def test_weights_and_a_model_are_evaluated_by_the_same_verb() -> None:
    test = simulated.packed("test")
    alone = evaluate(test, "alpha", reference="gamma")
    assert (alone.name, alone.kind, alone.settings, alone.grouping) == ("alpha", "model", {}, "relation-direction")
    assert alone.overall.mrr == pytest.approx(simulated.model_mrr_by_loop("test", "alpha"), abs=1e-12)
    assert alone.paired is not None
    assert alone.paired.reference == "gamma"
    assert evaluate(test, "gamma", reference="gamma").paired is None
    ensemble = evaluate(test, search(test, method="mean"), reference="gamma")
    assert (ensemble.name, ensemble.kind) == ("mean", "ensemble")
    assert ensemble.overall.mrr == pytest.approx(simulated.mrr_by_loop("test", lambda r, d: [1, 1, 1]), abs=1e-12)
    with pytest.raises(InputError, match="unknown model 'alfa'"):
        evaluate(test, "alfa")


def test_ranks_of_other_queries_raise_an_error() -> None:
    packed, grouping = pack(triples(0, 1)), Grouping.by_relation(RELATIONS)
    right, wrong = answer_ranks([(0, 0)] * 4), answer_ranks([(0, 0)] * 3)
    with pytest.raises(RanksError, match=r"'dsc' has ranks of 3 queries.*toy \(test\) have 4"):
        evaluate_ranks(NamedRanks("dsc", wrong), packed, grouping)
    with pytest.raises(RanksError, match="'rotate' has ranks of 3 queries"):
        evaluate_ranks(NamedRanks("dsc", right), packed, grouping, reference=NamedRanks("rotate", wrong))
    with pytest.raises(RanksError, match="'transe' has ranks of 3 queries"):
        relation_spread({"transe": wrong}, packed)


def test_a_split_without_queries_raises_an_error() -> None:
    with pytest.raises(RanksError, match="nothing to evaluate: toy"):
        evaluate_ranks(NamedRanks("dsc", answer_ranks([])), pack(triples()), Grouping.by_relation(RELATIONS))


def test_relation_spread_by_hand() -> None:
    # Relation 0 has two queries, relation 2 has four; relation 1 asks nothing.
    packed = pack(triples(2, 0, 2))
    spread = relation_spread(
        {
            "transe": answer_ranks([(1, 0)] * 2 + [(0, 0)] * 2 + [(1, 0)] * 2),
            "rotate": answer_ranks([(0, 0)] * 2 + [(3, 0)] * 2 + [(0, 0)] * 2),
            "conve": answer_ranks([(1, 0)] * 2 + [(3, 0)] * 2 + [(1, 0)] * 2),
        },
        packed,
    )
    # MRR per model: relation 0 has 1, 1/4, 1/4; relation 2 has 1/2, 1, 1/2.
    std_0, std_2 = sqrt(1 / 8), sqrt(1 / 18)
    assert list(spread["relations"]) == ["_hypernym", "a|b"]
    assert spread["relations"]["_hypernym"]["std"] == pytest.approx(std_0)
    assert spread["std_by_relations"] == pytest.approx((std_0 + std_2) / 2)
    assert spread["std_by_queries"] == pytest.approx((2 * std_0 + 4 * std_2) / 6)
    assert spread["relations"]["a|b"] == {
        "queries": 4,
        "std": pytest.approx(std_2),
        "best": "rotate",
        "worst": "transe",
        "mrr": {"transe": 0.5, "rotate": 1.0, "conve": 0.5},
    }
    assert json.loads(json.dumps(spread)) == spread


def test_one_model_has_no_spread() -> None:
    spread = relation_spread({"transe": answer_ranks([(0, 0), (7, 0)])}, pack(triples(1)))
    assert spread["std_by_queries"] == spread["std_by_relations"] == 0
