"""How fast models are trained and ranked: relens and PyKEEN side by side, and how near to the limits of the device.

One run measures, on one data set and one device, and for the same model, dimension, batch and number of negatives:

- training, in positives per second: (a) PyKEEN's sLCWA loop with the self-adversarial loss, at the number of workers
  that suits it best, (b) relens with the same loss and negatives of its own for every positive, (c) relens with its own
  recipe: the preset's settings, in which positives share pools of negatives;
- filtered ranking among all entities, in queries per second: PyKEEN's evaluator and relens, on the same parameters;
- for each of the six models of relens, as a preset has it: the milliseconds of a step, and the share of them that the
  device needs at least (``limits.py``).

A positive is a query with its answer in relens, a triple in PyKEEN; both come with the same number of negatives. The
dimension counts real numbers per entity: RotatE of PyKEEN gets half as many complex ones. PyKEEN's RotatE takes the
Euclidean norm over coordinates, relens the sum of moduli: the same work, but other ranks. Alternatives take turns, and
their medians count. Whatever fails is recorded with its error, and the rest goes on.

    python benchmarks/bench_training.py --dataset fb15k-237 --device cuda --output out/training-fb15k-237.json
"""

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from math import gcd
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import click
import limits
import numpy as np
import numpy.typing as npt
import torch
from environment import describe, say, write
from limits import wait
from rich.console import Console
from rich.table import Table

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.known_answers import KnownAnswers
from relens.data.queries import Queries
from relens.models import MODELS
from relens.models.base import KGEModel
from relens.presets import PRESETS
from relens.ranking.competition import Competition
from relens.ranking.validation import mean_reciprocal_rank
from relens.seeding import generator
from relens.training.loop import new_model
from relens.training.presets import resolve_settings
from relens.training.queries import TrainingQueries
from relens.training.settings import TrainSettings
from relens.training.state import TrainingState, isolated

PARTS = ("training", "ranking", "limits")
COMPARED = ("transe", "rotate")
PYKEEN, PER_ROW, POOLED = "pykeen", "relens, negatives per row", "relens, its own recipe"
RELENS, FILTERING = "relens", "relens, making the filter"
WORKERS = {"cpu": (0, 2), "cuda": (0, 4, 8)}
"""Workers PyKEEN is tried with."""
RANKING_BATCHES: dict[str, tuple[int | None, ...]] = {"cpu": (32, 128), "cuda": (None, 256)}
"""Triples per batch PyKEEN's evaluator is tried with; with None it finds out what fits into the GPU's memory."""
WARM_UP = {"cpu": 2, "cuda": 12}
"""Steps before the clock runs: on CUDA kernels are compiled and a graph is captured."""
ENDLESS = 10**9
PACKAGES = ("torch", "triton", "pykeen")

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Options:
    """Settings of a run: its measurements, and how often."""

    device: torch.device
    dimension: int
    batch: int
    negatives: int
    seconds: float
    repeats: int
    triples: int
    workers: tuple[int, ...]
    threads: int | None
    preset: str
    seed: int


@click.command()
@click.option("--dataset", "source", default="patterns", show_default=True, help="A name, or a folder of TSV files.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS, help="What to measure.  [all]")
@click.option(
    "--model", "names", multiple=True, type=click.Choice(COMPARED), default=COMPARED, help="To compare.  [all]"
)
@click.option("--dimension", default=1000, show_default=True, help="Real numbers per entity, in both.")
@click.option("--batch", default=1024, show_default=True, help="Positives per step.")
@click.option("--negatives", default=512, show_default=True, help="Negatives per positive.")
@click.option("--seconds", default=1.0, show_default=True, help="Of training, each time an alternative has its turn.")
@click.option("--repeats", default=3, show_default=True, help="Turns of each alternative; their median counts.")
@click.option("--triples", default=5000, show_default=True, help="Validation triples to rank, at most.")
@click.option(
    "--workers", multiple=True, type=int, help="Workers PyKEEN is tried with.  [default: as the device suits]"
)
@click.option("--threads", type=int, help="Of PyTorch on the CPU.  [default: PyTorch's own]")
@click.option("--preset", type=click.Choice(PRESETS), default="best", show_default=True, help="relens' own recipe.")
@click.option("--seed", default=0, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(
    source: str, device: str, parts: tuple[str, ...], names: tuple[str, ...], output: Path | None, **rest: Any
) -> None:
    """Measure training and ranking on one data set."""
    rest["workers"] = rest["workers"] or WORKERS[device]
    if rest["threads"]:
        torch.set_num_threads(rest["threads"])
    bench = Bench(load_dataset(source, offline=True), Options(device=torch.device(device), **rest))
    report: dict[str, Any] = {
        "benchmark": "training",
        "dataset": {"name": bench.dataset.name, **bench.dataset.counts},
        "settings": {"device": device, "parts": parts, "models": names, **rest},
        "environment": environment(device),
    }
    for part in (part for part in PARTS if part in parts):
        report[part] = bench.limits() if part == "limits" else {name: getattr(bench, part)(name) for name in names}
        if output is not None:
            write(report, output)  # a run that is stopped leaves what it has measured
    if output is None:
        write(report, output)
    show(report)


class Bench:
    """One data set on one device, and everything that is measured on it."""

    def __init__(self, dataset: Dataset, options: Options) -> None:
        self.dataset, self.options = dataset, options

    def settings(self, model: str, *changes: str) -> TrainSettings:
        """Return the preset's settings of a model, as if training took forever: schedules then stand still."""
        settings = resolve_settings(
            self.dataset.name, model, self.options.preset, [*changes, f"seed={self.options.seed}"]
        )
        return replace(settings, steps=ENDLESS)

    def recipe(self, model: str) -> TrainSettings:
        """Return relens' own recipe at the sizes of the run."""
        options = self.options
        sizes = f"dim={options.dimension}", f"negatives={options.negatives}", f"batch={options.batch}"
        settings = self.settings(model, *sizes, "pool_rows=1", "shared_inverse=true")
        return replace(settings, pool_rows=gcd(options.batch, self.settings(model).pool_rows))

    def training(self, model: str) -> dict[str, Any]:
        """Time the training of a model: positives per second."""
        options, recipe = self.options, self.recipe(model)
        per_row = TrainSettings(
            model, recipe.options, negatives=options.negatives, batch=options.batch, lr=recipe.lr,
            initialiser=recipe.initialiser, steps=ENDLESS, seed=options.seed,
        )  # fmt: skip
        say(f"{model}: training")
        tried: dict[str, Any] = {}
        rows = in_turn(
            {
                PYKEEN: lambda: self._pykeen_training(model, recipe, tried),
                PER_ROW: lambda: Steps(per_row, self.dataset, options.device).pace,
                POOLED: lambda: Steps(recipe, self.dataset, options.device).pace,
            },
            lambda pace: options.batch * pace(options.seconds),
            options.repeats,
        )
        for row in rows.values():
            if "median" in row:
                row["milliseconds_per_step"] = 1e3 * options.batch / row["median"]
        rows[PYKEEN] |= tried
        rows[POOLED]["pool_rows"] = recipe.pool_rows
        return {"unit": "positives per second", "rows": rows, "ratios": ratios(rows)}

    def _pykeen_training(self, model: str, recipe: TrainSettings, tried: dict[str, Any]) -> Callable[[float], float]:
        """Return PyKEEN's pace as a function of the seconds, with the workers that suit it best; note who was tried."""
        import pykeen_runs

        options = self.options
        theirs = pykeen_runs.build(model, options.dimension, self.dataset, recipe.options["gamma"], options.device)
        training = pykeen_runs.Training(
            theirs, self.dataset, batch=options.batch, negatives=options.negatives, lr=recipe.lr
        )

        def pace(workers: int, seconds: float) -> float:
            return training.pace(workers, seconds, lambda: wait(options.device))

        best, rates = fastest(options.workers, lambda workers: options.batch * pace(workers, options.seconds))
        tried |= {"workers": best, "by_workers": rates}
        return lambda seconds: pace(best, seconds)

    def ranking(self, model: str) -> dict[str, Any]:
        """Time the ranking of validation queries among all entities: queries per second."""
        options, dataset = self.options, self.dataset
        chosen = generator(options.seed, "ranked triples").permutation(len(dataset.valid))[: options.triples]
        triples = dataset.valid[np.sort(chosen)]
        queries = Queries.from_triples(triples)
        ours = new_model(self.recipe(model), dataset.train, len(dataset.entities), len(dataset.relations))
        ours = ours.to(options.device)
        known = self._known()
        say(f"{model}: ranking {len(queries):,} queries")
        mrr: dict[str, float] = {}
        tried: dict[str, Any] = {}

        def rank(known: KnownAnswers) -> float:
            return mean_reciprocal_rank(ours, Competition(queries, known))

        def warm(name: str, rank: Callable[[], float]) -> Callable[[], float]:
            mrr[name] = rank()
            return rank

        rows = in_turn(
            {
                PYKEEN: lambda: warm(PYKEEN, self._pykeen_ranking(model, ours, triples, tried)),
                FILTERING: lambda: warm(
                    FILTERING, lambda: mean_reciprocal_rank(ours, Competition(queries, self._known()))
                ),
                RELENS: lambda: warm(RELENS, lambda: mean_reciprocal_rank(ours, Competition(queries, known))),
            },
            lambda rank: len(queries) / self._seconds(rank),
            options.repeats,
        )
        rows[PYKEEN] |= tried
        return {"unit": "queries per second", "queries": len(queries), "mrr": mrr, "rows": rows, "ratios": ratios(rows)}

    def _pykeen_ranking(
        self, model: str, ours: KGEModel, triples: npt.NDArray[np.int32], tried: dict[str, Any]
    ) -> Callable[[], float]:
        """Return PyKEEN's ranking, with our parameters and the batch that suits it best; note which were tried."""
        import pykeen_runs

        options = self.options
        gamma = self.recipe(model).options["gamma"]
        theirs = pykeen_runs.build(model, options.dimension, self.dataset, gamma, options.device)
        pykeen_runs.copy_parameters(ours, theirs, model)
        ranking = pykeen_runs.Ranking(theirs, self.dataset, triples)
        sizes: dict[int | None, int] = {}

        def rate(batch: int | None) -> float:
            ranking(batch)
            sizes[batch] = ranking.batch  # what was found to fit is not searched for again
            return 2 * len(triples) / self._seconds(lambda: ranking(sizes[batch]))

        best, rates = fastest(RANKING_BATCHES[options.device.type], rate)
        tried |= {"batch": sizes[best], "by_batch": rates}
        return lambda: ranking(sizes[best])

    def _known(self) -> KnownAnswers:
        dataset = self.dataset
        return KnownAnswers.build(list(dataset.splits.values()), len(dataset.entities), len(dataset.relations))

    def _seconds(self, function: Callable[[], Any]) -> float:
        wait(self.options.device)
        begun = perf_counter()
        function()
        wait(self.options.device)
        return perf_counter() - begun

    def limits(self) -> dict[str, Any]:
        """Time a training step of every model, and compare with what the device needs at least."""
        options, dataset = self.options, self.dataset
        say("measuring the device")
        ceilings = limits.measure(options.device)
        found: dict[str, Any] = {}
        for model in MODELS:
            say(f"{model}: steps of the preset {options.preset}")
            settings = self.settings(model)
            rows = in_turn(
                {"milliseconds": lambda settings=settings: Steps(settings, dataset, options.device)},
                lambda steps: 1e3 / steps.pace(options.seconds),
                options.repeats,
            )
            sizes = len(dataset.entities), len(dataset.relations)
            n_parameters = new_model(settings, dataset.train, *sizes).n_parameters
            case = limits.Case(settings, *sizes, len(dataset.train), n_parameters)
            bound = limits.step(case).bound(ceilings)
            found[model] = {**rows, "parameters": n_parameters, "pairs": case.pairs, "bound": bound}
            if "median" in rows["milliseconds"]:
                found[model]["share"] = 1e3 * bound["seconds"] / rows["milliseconds"]["median"]
        return {"ceilings_per_second": ceilings.to_json(), "models": found}


class Steps:
    """relens in training: a run on its device, warmed up."""

    def __init__(self, settings: TrainSettings, dataset: Dataset, device: torch.device) -> None:
        sizes = len(dataset.entities), len(dataset.relations)
        model: KGEModel = new_model(settings, dataset.train, *sizes).to(device).train()
        self._settings, self._device = settings, model.device
        facts = torch.from_numpy(dataset.train.astype(np.int64)).to(device)
        self._run = TrainingState(model, TrainingQueries.from_triples(facts, *sizes), settings)
        half = WARM_UP[device.type] // 2
        self._timed(half)
        self._pace = self._timed(half)

    def pace(self, seconds: float) -> float:
        """Train for about some seconds and return the steps per second."""
        self._pace = self._timed(max(1, round(seconds * self._pace)))
        return self._pace

    def _timed(self, steps: int) -> float:
        """Take some steps and return how many that is per second."""
        with isolated(self._settings, self._device):
            wait(self._device)
            begun = perf_counter()
            for _ in range(steps):
                self._run.advance()
            wait(self._device)
            return steps / (perf_counter() - begun)


def in_turn(
    makers: Mapping[str, Callable[[], Any]], measure: Callable[[Any], float], repeats: int
) -> dict[str, dict[str, Any]]:
    """Make alternatives, then measure each of them ``repeats`` times in turn; one that fails keeps its error.

    What slows the machine down slows down all of them.
    """
    made: dict[str, Any] = {}
    rows: dict[str, dict[str, Any]] = {name: {} for name in makers}
    values: dict[str, list[float]] = {name: [] for name in makers}
    for name, make in makers.items():
        _guarded(rows[name], lambda name=name, make=make: made.update({name: make()}))
    for _ in range(repeats):
        for name, alternative in made.items():
            if "error" not in rows[name]:
                _guarded(rows[name], lambda name=name, what=alternative: values[name].append(measure(what)))
    for name, row in rows.items():
        if "error" not in row:
            row |= {"median": median(values[name]), "all": values[name]}
    made.clear()
    _free()
    return rows


def _guarded(row: dict[str, Any], function: Callable[[], Any]) -> None:
    """Call a function; an exception is noted as the row's ``error`` instead of ending the run."""
    try:
        function()
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"
        say(f"    failed: {row['error']}")
    if "error" in row:
        _free()


def _free() -> None:
    """Give memory back that nothing uses any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def fastest(choices: Iterable[Choice], rate: Callable[[Choice], float]) -> tuple[Choice, dict[str, Any]]:
    """Return the choice with the highest rate, and all rates by choice, or errors; the last error where all failed."""
    rows: dict[Choice, dict[str, Any]] = {choice: {} for choice in choices}
    for choice, row in rows.items():
        _guarded(row, lambda choice=choice, row=row: row.update(rate=rate(choice)))
    worked = {choice: row["rate"] for choice, row in rows.items() if "rate" in row}
    if not worked:
        raise RuntimeError(row["error"])
    say("    PyKEEN with " + ", ".join(f"{choice}: {value:,.0f}/s" for choice, value in worked.items()))
    return max(worked, key=worked.__getitem__), {str(c): row.get("rate", row.get("error")) for c, row in rows.items()}


def ratios(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return how many times faster than PyKEEN the others are."""
    if "median" not in rows[PYKEEN]:
        return {}
    base = rows[PYKEEN]["median"]
    return {name: row["median"] / base for name, row in rows.items() if name != PYKEEN and "median" in row}


def environment(device: str) -> dict[str, Any]:
    """Return machine and versions, those of the device and of what only training needs included."""
    found = describe()
    found["versions"] |= {name: _version(name) for name in PACKAGES}
    found["device"] = torch.cuda.get_device_name() if device == "cuda" else found["cpu"]
    found["threads"] = torch.get_num_threads()
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def show(report: Mapping[str, Any]) -> None:
    """Print the figures as tables, on stderr: JSON may go to stdout."""
    console = Console(stderr=True, width=140, highlight=False)
    for part in ("training", "ranking"):
        for model, found in report.get(part, {}).items():
            table = Table(f"{part}, {model}", found["unit"], "times PyKEEN", "", title_justify="left")
            for name, row in found["rows"].items():
                ratio = found["ratios"].get(name)
                table.add_row(
                    name,
                    f"{row['median']:,.0f}" if "median" in row else "–",
                    f"{ratio:.1f}" if ratio else "",
                    _remark(row),
                )
            console.print(table)
    if "limits" in report:
        table = Table("steps of the preset", "ms", "at least, ms", "share", "bound by (forward, backward, optimiser)")
        for model, row in report["limits"]["models"].items():
            measured = row["milliseconds"]
            table.add_row(
                model,
                f"{measured['median']:.3f}" if "median" in measured else "–",
                f"{1e3 * row['bound']['seconds']:.3f}",
                f"{row['share']:.0%}" if "share" in row else measured["error"],
                ", ".join(phase["bound_by"] for phase in row["bound"]["phases"].values()),
            )
        console.print(table)


def _remark(row: Mapping[str, Any]) -> str:
    """Say what is special about a row."""
    remarks = [f"{key.replace('_', ' ')} {row[key]}" for key in ("workers", "batch", "pool_rows") if key in row]
    return ", ".join([*remarks, *([row["error"]] if "error" in row else [])])


if __name__ == "__main__":
    main()
