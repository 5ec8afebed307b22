"""What docs/reproduction.md and docs/ogb.md report follows from the ranks that are committed beside them."""

import pytest

from benchmarks.reproduction.evidence import EVERY, PROTOCOLS, Evidence, Leaderboard, Ranks
from relens.metrics.hits import hits
from relens.metrics.mean_rank import mean_rank
from relens.metrics.mrr import mrr


@pytest.mark.parametrize("of", EVERY, ids=lambda of: of.dataset)
def test_the_reported_metrics_are_those_of_the_ranks(of: Evidence) -> None:
    check(of.ranks, {**of.six["models"], **of.six["methods"]})
    check(of.member_ranks, {name: of.members["methods"][name] for name in ("simple", "dsc")})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_reported_metrics_of_the_leaderboard_are_those_of_the_ranks(protocol: str) -> None:
    of = Leaderboard(protocol)
    check(of.ranks, {**of.record["models"], **of.record["methods"]})
    assert of.record["provenance"]["candidates"] == {"full": "all", "sampled": "sampled"}[protocol]


def check(ranks: Ranks, reported: dict[str, dict[str, dict[str, float]]]) -> None:
    assert ranks.of.keys() == reported.keys()
    for name, entry in reported.items():
        found = ranks.of[name]
        expected = {
            "queries": len(found),
            "mrr": mrr(found.realistic),
            "hits_at_1": hits(found.realistic, 1),
            "hits_at_3": hits(found.realistic, 3),
            "hits_at_10": hits(found.realistic, 10),
            "mean_rank": mean_rank(found.realistic),
            "mrr_optimistic": mrr(found.optimistic),
            "mrr_pessimistic": mrr(found.pessimistic),
        }
        assert entry["test"] == pytest.approx(expected, rel=1e-12), name
