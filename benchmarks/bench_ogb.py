"""How long files of OGB's form take to read: the first time, when everything is checked and copied, and from then on.

    python benchmarks/bench_ogb.py --output docs/results/ogb-reading.json

OGB's own files are not needed: ogbl-wikikg2 is drawn at random, with all of its entities, by default a quarter of its
train and valid triples, and a test split of valid's size, in both protocols that ``torch.save`` has written pickles
with. Every read is timed in a process of its own, beside one that does nothing but read the bytes.
"""

import gzip
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from environment import Timing, alone, describe, memory_status, say, seconds_of, write

from relens.data.ogb import read_ogb

ENTITIES, RELATIONS, NEGATIVES = 2_500_604, 535, 500
TRAIN, TRIPLES = 16_109_182, 429_456
PROTOCOLS = {"torch.save's default": 2, "protocol 4": 4}
CHUNK = 1 << 24


@click.command()
@click.option("--part", default=0.25, show_default=True, help="Of wikikg2's triples, in each split.")
@click.option("--repeats", default=3, show_default=True, help="Reads of each kind.")
@click.option(
    "--cache", type=click.Path(path_type=Path), help="Where to write the files; a temporary folder if absent."
)
@click.option("--output", type=click.Path(path_type=Path), help="The JSON file to write; stdout by default.")
def main(part: float, repeats: int, cache: Path | None, output: Path | None) -> None:
    """Time the reading of files in OGB's form."""
    forms = {}
    for name, protocol in PROTOCOLS.items():
        with TemporaryDirectory(dir=cache) as root:
            files = alone(write_files, Path(root), part, protocol)
            forms[name] = {"bytes": sum(file.stat().st_size for file in files), **measure(Path(root), files, repeats)}
        found = forms[name]
        say(
            f"{name}: {found['first']['median_seconds']:.1f} s, {found['peak_gb']:.2f} GB; "
            f"then {found['again']['median_seconds']:.1f} s"
        )
    settings = {"jobs": 1, "part": part, "repeats": repeats, "triples": int(TRIPLES * part), "train": int(TRAIN * part)}
    write({"benchmark": "ogb", "environment": describe(), "settings": settings, "forms": forms, "targets": []}, output)


def write_files(folder: Path, part: float, protocol: int) -> list[Path]:
    """Write the splits as OGB does, and return their files."""
    import torch  # here, so that its memory is not counted where files are read

    rng = np.random.default_rng(0)
    entities = max(2 * NEGATIVES, int(ENTITIES * min(1.0, 4 * part)))  # no more than the triples can name
    counts, splits = folder / "raw" / "num-node-list.csv.gz", folder / "split" / "time"
    for parent in (counts.parent, splits):
        parent.mkdir(parents=True)
    counts.write_bytes(gzip.compress(f"{entities}\n".encode()))
    for split, size in {"train": TRAIN, "valid": TRIPLES, "test": TRIPLES}.items():
        head, tail = rng.integers(0, entities, (2, int(size * part)))
        columns = {"head": head, "relation": rng.integers(0, RELATIONS, len(head)), "tail": tail}
        if split != "train":
            columns |= {"head_neg": negatives(head, entities, rng), "tail_neg": negatives(tail, entities, rng)}
        torch.save(columns, splits / f"{split}.pt", pickle_protocol=protocol)
    return sorted(splits.iterdir())


def negatives(answers: npt.NDArray[np.int64], entities: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw the negatives of every answer (Q,): different entities, and not the answer, (Q, 500)."""
    steps = rng.integers(1, entities // NEGATIVES, (len(answers), NEGATIVES))  # all of them stay short of one round
    return np.asarray((answers[:, None] + np.cumsum(steps, axis=1)) % entities)


def measure(folder: Path, files: list[Path], repeats: int) -> dict[str, Any]:
    """Return the seconds of reads of each kind, and the memory of the first."""
    found: dict[str, list[dict[str, float]]] = {"bytes_alone": [], "first": [], "again": []}
    for _ in range(repeats):
        shutil.rmtree(folder / "relens", ignore_errors=True)
        found["bytes_alone"].append(alone(read_bytes, files))
        found["first"].append(alone(read, folder))
        found["again"].append(alone(read, folder))
    timings = {name: Timing(tuple(each["seconds"] for each in reads)).to_json() for name, reads in found.items()}
    return {**timings, "peak_gb": max(each["peak_gb"] for each in found["first"])}


def read(folder: Path) -> dict[str, float]:
    """Read a data set, and return seconds and memory."""
    seconds = seconds_of(lambda: read_ogb(folder))
    return {"seconds": seconds, "peak_gb": memory_status("VmHWM") / 1e9}


def read_bytes(files: list[Path]) -> dict[str, float]:
    """Read files and do nothing with them."""

    def every_chunk() -> None:
        for file in files:
            with file.open("rb") as stream:
                while stream.read(CHUNK):
                    pass

    return {"seconds": seconds_of(every_chunk)}


if __name__ == "__main__":
    main()
