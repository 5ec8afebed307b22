"""The figures of docs/reproduction.md, docs/strong.md and docs/ogb.md follow from the committed ranks."""

import pytest

from benchmarks.reproduction.evidence import EVERY, PROTOCOLS, STRONG, Evidence, Leaderboard, Ranks, Strong
from relens.metrics.hits import hits
from relens.metrics.mean_rank import mean_rank
from relens.metrics.mrr import mrr
from relens.presets import read_preset
from relens.training.presets import resolve_settings
from relens.training.settings import TrainSettings


@pytest.mark.parametrize("evidence", EVERY, ids=lambda evidence: evidence.dataset)
def test_the_reported_metrics_are_those_of_the_ranks(evidence: Evidence) -> None:
    check(evidence.ranks, {**evidence.six["models"], **evidence.six["methods"]})
    check(evidence.member_ranks, {name: evidence.members["methods"][name] for name in ("simple", "dsc")})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_reported_metrics_of_the_leaderboard_are_those_of_the_ranks(protocol: str) -> None:
    evidence = Leaderboard(protocol)
    check(evidence.ranks, {**evidence.record["models"], **evidence.record["methods"]})
    assert evidence.record["provenance"]["candidates"] == {"full": "all", "sampled": "sampled"}[protocol]


STRONG_RUNS = [(strong, seed) for strong in STRONG for seed in strong.seeds]


@pytest.mark.parametrize(("strong", "seed"), STRONG_RUNS, ids=lambda value: getattr(value, "dataset", value))
def test_the_reported_metrics_of_strong_ensembles_are_those_of_the_ranks(strong: Strong, seed: int) -> None:
    record = strong.record(seed)
    check(strong.ranks(seed), {**record["models"], **record["methods"]})
    assert tuple(record["models"]) == read_preset("strong").members_for(strong.dataset)
    assert {model["settings"]["seed"] for model in record["models"].values()} == {seed}
    settings = [TrainSettings.from_dict(model["settings"]) for model in record["models"].values()]
    preset = [
        resolve_settings(strong.dataset, model.model, "strong", [f"seed={seed}"], member=name)
        for name, model in zip(record["models"], settings, strict=True)
    ]
    assert settings == preset


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
