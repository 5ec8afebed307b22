"""Errors by kind. Every message says what was found, where, what was expected and what to do.

Messages name the arguments of Python functions in backticks, such as ``pass `force=True```. The command line writes its
own options instead.
"""

import errno
from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 8_000
"""Most characters of a message: it may name a value of any length. The middle is left out."""


class RelensError(Exception):
    """The base of all errors of relens. The message is written for the user (exit code 1)."""

    def __str__(self) -> str:
        text = super().__str__()
        half = LONGEST // 2
        return text if len(text) <= LONGEST else f"{text[:half]} … {text[-half:]}"


class InputError(RelensError, ValueError):
    """The input or the request is wrong. Nothing was written, and another try needs a change (exit code 2)."""


class DamagedError(InputError):
    """A file that relens wrote is missing, or its content is not what was written."""


class DatasetError(InputError):
    """A data set is missing, malformed, or has other content than its name promises."""


class RanksError(InputError):
    """Scores, ranks or a packed store are malformed or do not belong together."""


class MemberError(RanksError):
    """A member of a run that others made cannot be loaded, or fails while it scores."""


class WeightsError(InputError):
    """Ensemble weights are malformed or do not fit the ranks they are applied to."""


class ClusterError(RelensError):
    """A cluster, or a part of the work on it, failed. The input may be right (exit code 1)."""


def install_hint(extra: str) -> str:
    """Return how to install an extra: relens is on no package index."""
    return f"pip install -c constraints.txt '.[{extra}]' in a clone of relens"


class MissingExtraError(RelensError, ImportError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: {install_hint(extra)}")
        self.feature, self.extra = feature, extra

    def __reduce__(self) -> tuple[type["MissingExtraError"], tuple[str, str]]:
        """Pickle the arguments, so that the error can leave a worker process."""
        return type(self), (self.feature, self.extra)


def nearest(name: str, known: Iterable[str], limit: int = 3, *, show_all: bool = False) -> str:
    """Return a hint such as ``did you mean 'wn18rr'?``; without a close name, list twelve known names, or all."""
    known = list(known)
    by_lower = {k.lower(): k for k in known}
    close = [by_lower[m] for m in get_close_matches(name.lower(), by_lower, n=limit, cutoff=0.6)]
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    most = len(known) if show_all else 12
    shown = ", ".join(repr(k) for k in known[:most]) + (", …" if len(known) > most else "")
    return f"available: {shown}" if known else "there are none"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 model``, ``1,200 models``, ``2 queries`` (``plural="queries"``)."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def is_disk_full(error: Exception) -> bool:
    """Say whether a file could not be written because a disk, or a quota of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def describe_os_error(error: OSError) -> str:
    """Return the message of an error that no reader or writer of relens expected; a full disk has a remedy."""
    if is_disk_full(error):
        return f"{error}: free some space there, or set TMPDIR to another place, then run the same command again."
    return str(error) or type(error).__name__
