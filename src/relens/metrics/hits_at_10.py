"""Hit@10."""

from relens.metrics.hits import Hits

HITS_AT_10 = Hits.build(10, order=40, spare=50)
