"""Importers: ranks and scores of other tools, as packed ranks.

``relens.importers.importer`` has the table of layouts that ``relens ranks import`` reads. The modules of
``relens.importers.layouts`` hold its entries.
"""

from relens.exports import lazy_exports

__getattr__ = lazy_exports(
    __name__,
    {
        "ArrayOptions": "relens.importers.arrays",
        "DATA": "relens.importers.importer",
        "Importer": "relens.importers.importer",
        "Matrix": "relens.importers.dense",
        "PykeenScorer": "relens.importers.layouts.pykeen",
        "pack_scorers": "relens.importers.scorers",
        "scores_with_queries": "relens.importers.arrays",
    },
)
