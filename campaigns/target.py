"""What the fuzz campaign attacks: one reader of files, with valid inputs to begin from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Files = Mapping[str, bytes]
"""An input: the content of each file by its path below one folder."""


def no_bombs() -> Mapping[str, Files]:
    """Return no bombs."""
    return {}


@dataclass(frozen=True)
class Target:
    """A reader of files.

    Attributes:
        name: the name in tallies, distinct among all targets.
        seeds: returns valid inputs, each of a few hundred bytes: ``read`` takes them without an error.
        read: reads the folder that holds the files of an input, and may raise ``relens.errors.RelensError`` and nothing
            else. What it imports should be imported with its module: the first call must not pay for it.
        tokens: pieces worth inserting into an input, such as ``nan`` or ``{``.
        bombs: returns small inputs that ask for much memory or time, by name; each is tried once in every run.
    """

    name: str
    seeds: Callable[[], Sequence[Files]]
    read: Callable[[Path], object]
    tokens: tuple[bytes, ...] = ()
    bombs: Callable[[], Mapping[str, Files]] = no_bombs
