"""Targets that fail in every way that the fuzz campaign must notice, and one that does not."""

import os
from pathlib import Path

from campaigns.target import Target
from relens.errors import InputError


def targets() -> list[Target]:
    """Return the targets: each fails where its file holds ``!``, which its bomb does."""
    failures = {
        "well-behaved": refuse,
        "traceback": lambda: {}["missing"],
        "memory": lambda: bytearray(b"x") * (2**31 + 2**28),
        "address space": lambda: bytearray(2**40),
        "crash": os.abort,
        "exit": lambda: os._exit(7),
    }
    return [
        Target(name, lambda: [{"file": b"x"}], reader(fail), bombs=lambda: {"bomb": {"file": b"!"}})
        for name, fail in failures.items()
    ]


def reader(fail):
    def read(folder: Path) -> object:
        return fail() if (folder / "file").exists() and b"!" in (folder / "file").read_bytes() else None

    return read


def refuse() -> None:
    raise InputError("it has an exclamation mark")
