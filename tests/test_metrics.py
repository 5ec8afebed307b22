"""Metrics, compared with the sums of fractions that their definitions state; the table of metrics."""

import re
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from hypothesis import given

from relens.metrics import METRICS, Metric
from relens.metrics.hits import Hits, hits
from relens.metrics.mean_rank import mean_rank
from relens.metrics.mrr import mrr
from relens.registry import Registry
from tests.oracles import tie_rules
from tests.strategies import answer_ranks, tie_counts


@given(tie_counts)
@pytest.mark.parametrize("rule", ["optimistic", "realistic", "pessimistic"])
def test_metrics_equal_the_fractions(rule: str, pairs: list[tuple[int, int]]) -> None:
    expected = [tie_rules(ahead, tied)[rule] for ahead, tied in pairs]
    ranks = getattr(answer_ranks(pairs), rule)
    assert ranks.dtype == np.float64
    assert ranks.tolist() == [float(rank) for rank in expected]
    assert mrr(ranks) == pytest.approx(float(sum(1 / rank for rank in expected) / len(pairs)), abs=1e-14)
    assert mean_rank(ranks) == pytest.approx(float(sum(expected) / len(pairs)), abs=1e-12)
    for k in (1, 3, 10):
        assert hits(ranks, k) == float(Fraction(sum(rank <= k for rank in expected), len(pairs)))


@given(tie_counts)
def test_every_entry_measures_the_ranks_of_its_tie_rule(pairs: list[tuple[int, int]]) -> None:
    ranks = answer_ranks(pairs)
    assert {name: metric.measure(ranks) for name, metric in METRICS.items()} == {
        "mrr": mrr(ranks.realistic),
        "hits_at_1": hits(ranks.realistic, 1),
        "hits_at_3": hits(ranks.realistic, 3),
        "hits_at_10": hits(ranks.realistic, 10),
        "mean_rank": mean_rank(ranks.realistic),
        "mrr_optimistic": mrr(ranks.optimistic),
        "mrr_pessimistic": mrr(ranks.pessimistic),
    }


@pytest.mark.parametrize("n_candidates", [1, 2, 5, 14541])
def test_constant_scores_give_two_over_candidates_plus_one(n_candidates: int) -> None:
    ranks = answer_ranks([(0, n_candidates - 1)] * 3)
    assert mrr(ranks.realistic) == pytest.approx(2 / (n_candidates + 1), rel=1e-15)
    assert mrr(ranks.optimistic) == 1
    assert mrr(ranks.pessimistic) == pytest.approx(1 / n_candidates, rel=1e-15)


def test_a_tie_for_the_first_place_is_no_hit_at_1() -> None:
    assert hits(answer_ranks([(0, 1)]).realistic, 1) == 0
    assert hits(answer_ranks([(2, 0)]).realistic, 3) == 1


def test_metrics_of_no_queries_are_zero() -> None:
    nothing = answer_ranks([])
    assert len(nothing) == 0
    assert mrr(nothing.realistic) == hits(nothing.realistic, 10) == mean_rank(nothing.realistic) == 0
    assert {metric.measure(nothing) for metric in METRICS.values()} == {0}


def test_entries_come_in_the_order_of_records() -> None:
    names = ["mrr", "hits_at_1", "hits_at_3", "hits_at_10", "mean_rank", "mrr_optimistic", "mrr_pessimistic"]
    assert list(METRICS) == names
    assert [metric.heading for metric in METRICS.values()] == [
        "MRR", "Hit@1", "Hit@3", "Hit@10", "MR", "MRR optimistic", "MRR pessimistic"
    ]  # fmt: skip
    assert [name for name, metric in METRICS.items() if metric.better == "lower"] == ["mean_rank"]
    assert METRICS["hits_at_1"].description == "share of the queries whose answer is first"
    assert METRICS["hits_at_10"].description == "share of the queries whose answer is among the first 10"


def test_every_name_is_an_attribute_name() -> None:
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in METRICS)


@dataclass(frozen=True, kw_only=True)
class MedianRank(Metric):
    """The median of the ranks."""

    def summarise(self, ranks: np.ndarray) -> float:
        return float(np.median(ranks))


MEDIAN = MedianRank(name="median_rank", description="median rank", heading="median", better="lower")


def test_another_distribution_adds_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("median_rank", f"{__name__}:MEDIAN", "relens.metrics")
    monkeypatch.setattr("relens.registry.entry_points", lambda group: [point] if group == point.group else [])
    table: Registry[Metric] = Registry("metric", "metrics", Metric, "relens.metrics")
    assert list(table) == [*METRICS, "median_rank"]
    assert table.find("Median_Rank").measure(answer_ranks([(0, 0), (3, 2), (9, 0)])) == 5


def test_hits_build_themselves_from_k() -> None:
    metric = Hits.build(5, order=35, spare=30)
    assert (metric.name, metric.heading) == ("hits_at_5", "Hit@5")
    assert metric.measure(answer_ranks([(4, 0), (5, 0)])) == 0.5
