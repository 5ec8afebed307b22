"""How a report writes numbers and names in sentences and cells."""

import numpy as np

from relens.tables.table import NOTHING


def method_label(name: str) -> str:
    """Return a method's name for readers: ``dsc:input=rank`` becomes ``dsc (input=rank)``."""
    method, _, options = name.partition(":")
    return f"{method} ({options.replace(',', ', ')})" if options else method


def mrr(value: float) -> str:
    """Return an MRR with four digits; a dash for NaN."""
    return NOTHING if np.isnan(value) else f"{value:.4f}"


def signed(value: float) -> str:
    """Return a difference of MRRs with its sign; a dash for NaN."""
    return NOTHING if np.isnan(value) else minus(f"{value:+z.4f}")


def minus(number: str) -> str:
    """Return a number with a real minus sign."""
    return number.replace("-", "−")


def count(value: int) -> str:
    """Return a whole number with a comma between thousands."""
    return f"{value:,}"


def share(value: float) -> str:
    """Return a fraction in per cent."""
    return f"{value:.0%}".replace("%", "\N{NO-BREAK SPACE}%")


def p(value: float) -> str:
    """Return a p-value for a cell."""
    return f"{value:.2g}" if value >= 0.0001 else "< 0.0001"


def p_equals(value: float) -> str:
    """Return a p-value for a sentence."""
    return f"p {p(value)}" if value < 0.0001 else f"p = {p(value)}"
