"""Relation-aware ensembles of knowledge-graph-embedding models."""

__version__ = "0.1.0"
