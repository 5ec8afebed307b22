"""Readers of text, tables, TOML, JSON records, archives and pickles, as targets of the fuzz campaign."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

from campaigns.target import Files, Target


def targets() -> list[Target]:
    """Return the targets of this module."""
    return [_graph()]


def _graph() -> Target:
    """A folder of TSV files, with readable names."""
    from relens.data.catalog import open_folder

    text = "".join(f"e{i}\tr{i % 2}\te{(i + 1) % 5}\n" for i in range(5)).encode()
    plain = {"train.txt": text, "valid.txt": text[:9], "test.txt": text[9:18], "labels.tsv": b"e0\tZero\ne1\tOne\n"}
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in plain.items()}

    def read(folder: Path) -> object:
        dataset = open_folder(folder)
        return dataset.names, dataset.fingerprint, dataset.cardinalities, dataset.known_answers

    def seeds() -> Sequence[Files]:
        return [plain, packed]

    def bombs() -> Mapping[str, Files]:
        ends = gzip.compress(b"\n" * 10**7, mtime=0) * 100
        return {"a gigabyte of line ends": {**packed, "train.txt.gz": ends}}

    return Target("graph", seeds, read, bombs=bombs)
