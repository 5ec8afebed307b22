"""Ranking: scores of queries, the candidates that compete, and the rank of the answer among them."""

from relens.exports import lazy_exports

__getattr__ = lazy_exports(
    __name__,
    {
        "Competition": "relens.ranking.competition",
        "ModelScorer": "relens.ranking.scoring",
        "mean_reciprocal_rank": "relens.ranking.validation",
    },
)
