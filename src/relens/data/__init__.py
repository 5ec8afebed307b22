"""Data: triples, vocabularies, queries, groupings, known answers and candidates."""

from relens.exports import lazy_exports

__getattr__ = lazy_exports(
    __name__,
    {
        "sample_negatives": "relens.data.negatives",
    },
)
