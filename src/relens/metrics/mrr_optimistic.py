"""The mean reciprocal rank if every tie were won."""

from relens.metrics.mrr import MeanReciprocalRank

MRR_OPTIMISTIC = MeanReciprocalRank(
    name="mrr_optimistic",
    description="mean reciprocal rank if every answer won its ties",
    heading="MRR optimistic",
    order=60,
    ties="optimistic",
    spare=40,
)
