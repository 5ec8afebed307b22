"""Importers: ranks and scores of other tools, as packed ranks.

``relens.importers.importer`` has the table of layouts that ``relens ranks import`` reads. The modules of
``relens.importers.layouts`` hold its entries.
"""
