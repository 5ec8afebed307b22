"""The figures of docs/reproduction.md and docs/ogb.md follow from the committed ranks."""

import pytest

from benchmarks.reproduction.evidence import EVERY, PROTOCOLS, Evidence, Leaderboard, Ranks
from relens.metrics.hits import hits
from relens.metrics.mean_rank import mean_rank
from relens.metrics.mrr import mrr


@pytest.mark.parametrize("evidence", EVERY, ids=lambda evidence: evidence.dataset)
def test_the_reported_metrics_are_those_of_the_ranks(evidence: Evidence) -> None:
    check(evidence.ranks, {**evidence.six["models"], **evidence.six["methods"]})
    check(evidence.member_ranks, {name: evidence.members["methods"][name] for name in ("simple", "dsc")})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_reported_metrics_of_the_leaderboard_are_those_of_the_ranks(protocol: str) -> None:
    evidence = Leaderboard(protocol)
    check(evidence.ranks, {**evidence.record["models"], **evidence.record["methods"]})
    assert evidence.record["provenance"]["candidates"] == {"full": "all", "sampled": "sampled"}[protocol]


def check(ranks: Ranks, reported: dict[str, dict[str, dict[str, float]]]) -> None:
    assert ranks.by_name.keys() == reported.keys()
    for name, entry in reported.items():
        found = ranks.by_name[name]
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
