"""How fast dense ranks and scores are packed, against reading them, and how much memory that takes.

One array per model is written to disk, read once so that the system has it cached, and packed into a store, in a
process of its own whose private memory is limited: by default to 4 GB, however large the arrays are.

    python benchmarks/bench_pack.py --size 7 --output out/pack.json
"""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

import click
import numpy as np
from environment import Target, alone, describe, memory_status, say, say_targets, time_in_turn, write
from rank_files import ranks_of
from reading import file_readers
from shapes import DEFAULT_CACHE, SHAPES, SPLIT

from relens.data.queries import Queries
from relens.importers.dense import MEMORY_BUDGET, Dense, Kind, Matrix, pack_dense
from relens.packs.pack import PackHeader
from relens.packs.packing import fit_gap_scales
from relens.packs.simulation import BLOCK
from relens.packs.store import n_bytes
from relens.records import Provenance

DISTINCT_BLOCKS = 8
"""Blocks of queries simulated; files of any size repeat their rows."""
WARM_UP_ROWS = 64
SAMPLING_SECONDS = 0.01


@dataclass(frozen=True)
class Case:
    """One thing to pack: arrays (Q, C), a file per model, whose rows repeat those of ``queries``."""

    name: str
    kind: Kind
    files: tuple[Path, ...]
    queries: Queries
    n_rows: int
    gaps: bool
    jobs: int
    repeats: int
    memory_budget: int
    limit: int

    def dense(self, n_rows: int | None = None) -> Dense:
        """Return what to pack: all rows, or the first ``n_rows``, those in memory."""
        n = self.n_rows if n_rows is None else n_rows
        queries = self.queries[np.arange(n) % len(self.queries)]
        matrices = [Matrix.open(file) for file in self.files]
        heads = [np.load(file, mmap_mode="r")[:WARM_UP_ROWS].copy() for file in self.files]
        if n_rows is not None:
            matrices = [Matrix.from_array(file.stem, head[:n]) for file, head in zip(self.files, heads, strict=True)]
        scales = fit_gap_scales(heads, queries.answer[: len(heads[0])]) if self.gaps else None
        relations = tuple(f"relation {r}" for r in range(int(queries.relation.max()) + 1))
        names = tuple(file.stem for file in self.files)
        header = PackHeader(names, relations, queries, Provenance("simulated", "benchmark", SPLIT), scales)
        return Dense(header, self.kind, matrices, queries.answer)


@click.command()
@click.option("--size", default=1.0, show_default=True, help="GB of each set of arrays.")
@click.option("--shape", type=click.Choice(list(SHAPES)), default="fb15k-237", show_default=True)
@click.option("--jobs", default=2, show_default=True, help="Threads that pack, and threads that read.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--memory-budget", default=MEMORY_BUDGET, show_default=True, help="The packer's own budget, in bytes.")
@click.option("--limit", default=4.0, show_default=True, help="GB of private memory the packing process may have.")
@click.option("--cache", type=click.Path(path_type=Path), default=DEFAULT_CACHE, help="Where to put the arrays.")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(size: float, shape: str, seed: int, limit: float, cache: Path, output: Path | None, **options: Any) -> None:
    """Measure packing of dense uint16 ranks and float32 scores."""
    cache.mkdir(parents=True, exist_ok=True)
    cases: dict[str, Any] = {}
    limit_bytes = int(limit * 1e9)
    for kind in ("ranks", "scores"):
        with TemporaryDirectory(dir=cache) as folder:
            say(f"writing {size:g} GB of {kind}")
            files, queries, n_rows = write_arrays(kind, shape, seed, int(size * 1e9), Path(folder))
            for gaps in (False, True) if kind == "scores" else (False,):
                name = f"{kind} with gaps" if gaps else kind
                case = Case(name, kind, files, queries, n_rows, gaps, limit=limit_bytes, **options)
                cases[name] = alone(measure, case)
                say(
                    f"{name}: {cases[name]['gb_per_second']:.2f} GB/s, {cases[name]['ratio_to_best_read']:.2f} of "
                    f"reading, {cases[name]['peak_private_gb']:.2f} GB of private memory"
                )
    peak = max(case["peak_private_gb"] for case in cases.values())
    targets = [Target("GB of private memory at most in use", peak, "at most", limit)]
    report = {
        "benchmark": "pack",
        "settings": {"size_gb": size, "shape": shape, "seed": seed, "limit_gb": limit, **options},
        "environment": describe(),
        "cases": cases,
        "targets": [target.to_json() for target in targets],
    }
    write(report, output)
    say_targets(targets)


def write_arrays(kind: Kind, shape: str, seed: int, size: int, folder: Path) -> tuple[tuple[Path, ...], Queries, int]:
    """Write an array per model, ``size`` bytes in all; return the files, the distinct queries and the rows of each."""
    simulation = SHAPES[shape].with_seed(seed).simulation
    every = simulation.queries(SPLIT)
    n_blocks = max(1, len(every) // BLOCK)
    blocks = np.unique(np.linspace(0, n_blocks - 1, DISTINCT_BLOCKS).astype(np.int64)).tolist()
    values = np.concatenate([simulation.scores(every, SPLIT, block) for block in blocks], axis=1)
    queries = every[np.concatenate([np.arange(len(every))[block * BLOCK : (block + 1) * BLOCK] for block in blocks])]
    if kind == "ranks":
        values = ranks_of(values)
    n_rows = max(WARM_UP_ROWS, size // (len(values) * values[0, 0].nbytes))
    files = tuple(folder / f"{model.replace(' ', '-')}.npy" for model in simulation.models)
    for file, rows in zip(files, values, strict=True):
        whole = np.lib.format.open_memmap(file, mode="w+", dtype=rows.dtype, shape=(n_rows, rows.shape[1]))
        for first in range(0, n_rows, len(rows)):
            whole[first : first + len(rows)] = rows[: n_rows - first]
        whole.flush()
    return files, queries, n_rows


def measure(case: Case) -> dict[str, Any]:
    """Pack and read in turn, under the limit of private memory; return the figures."""
    # Counts private writable memory only: neither shared maps of files nor reserved addresses.
    resource.setrlimit(resource.RLIMIT_DATA, (case.limit, case.limit))
    store = case.files[0].parent / "store"
    pack_dense(case.dense(WARM_UP_ROWS), jobs=case.jobs)
    dense = case.dense()
    before = memory_status("RssAnon")
    functions: dict[str, Callable[[], Any]] = {
        "pack": lambda: pack_dense(dense, store, memory_budget=case.memory_budget, jobs=case.jobs),
        **file_readers(case.files, case.jobs),
    }
    # Once before it counts: the system has the files cached, and everything is compiled.
    time_in_turn({name: function for name, function in functions.items() if name != "pack"}, 1)
    with sampled_peak() as peak:
        timings = time_in_turn(functions, case.repeats)
    size = sum(file.stat().st_size for file in case.files)
    rates = {name: size / timing.median / 1e9 for name, timing in timings.items()}
    mine = rates.pop("pack")
    return {
        **timings["pack"].to_json(),
        "bytes": size,
        "queries": case.n_rows,
        "gb_per_second": mine,
        "read_gb_per_second": rates,
        "ratio_to_best_read": mine / max(rates.values()),
        "store_bytes": n_bytes(store),
        "private_gb_before": before / 1e9,
        "peak_private_gb": max(peak) / 1e9,
        # With the pages of files that the reading has mapped, which the system takes back when it needs them.
        "peak_resident_gb": memory_status("VmHWM") / 1e9,
    }


@contextmanager
def sampled_peak() -> Iterator[list[int]]:
    """Look at the process's private memory all the time; yield the list that grows, bytes."""
    seen, done = [memory_status("RssAnon")], Event()

    def look() -> None:
        while not done.wait(SAMPLING_SECONDS):
            seen.append(memory_status("RssAnon"))

    thread = Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    main()
