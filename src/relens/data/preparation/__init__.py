"""Preparation: read triples from other formats, split them, remove leaks, and write a folder."""
