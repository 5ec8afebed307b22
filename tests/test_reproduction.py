"""What docs/reproduction.md and docs/ogb.md report follows from the ranks that are committed beside them."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reproduction.evidence import EVERY, PROTOCOLS, SIX, Evidence, Leaderboard, Ranks
from relens.ranking.answer_ranks import hits, mean_rank, mrr

ROOT = Path(__file__).parent.parent


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


def test_the_pages_say_what_the_evidence_says() -> None:
    script = ROOT / "benchmarks/reproduction/page.py"
    subprocess.run([sys.executable, script, "--check"], check=True, cwd=ROOT)


def test_the_readme_says_how_far_models_and_ensembles_are_from_the_paper() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "All eighteen models are within .006 of the paper's values or above." in readme
    assert min(of.test(name)["mrr"] - of.paper[name][0] for of in EVERY for name in SIX) > -0.006
    short, *ahead = (f"{abs(of.test('dsc')['mrr'] - of.paper['dsc'][0]):.4f}".removeprefix("0") for of in EVERY)
    assert f"On WN18RR the ensemble falls {short} short of the paper's;" in readme
    assert f"on the other two it is ahead by {ahead[0]} and {ahead[1]}." in readme
