"""The mean reciprocal rank if every tie were lost."""

from relens.metrics.mrr import MeanReciprocalRank

MRR_PESSIMISTIC = MeanReciprocalRank(
    name="mrr_pessimistic",
    description="mean reciprocal rank if every answer lost its ties",
    heading="MRR pessimistic",
    order=70,
    ties="pessimistic",
    spare=40,
)
