"""Hit@3."""

from relens.metrics.hits import Hits

HITS_AT_3 = Hits.build(3, order=30, spare=30)
