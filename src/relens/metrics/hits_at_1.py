"""Hit@1."""

from relens.metrics.hits import Hits

HITS_AT_1 = Hits.build(1, order=20, spare=0)
