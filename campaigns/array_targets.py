"""Readers of arrays, as targets of the fuzz campaign."""

from campaigns.target import Target


def targets() -> list[Target]:
    """Return the targets of this module."""
    return []
