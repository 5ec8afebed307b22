"""How many questions the service answers, how fast, and in how much memory; and what bulk prediction costs.

One run measures, with models of the shapes of a preset and random parameters, which cost what trained ones do:

- serving: `relens serve`, one process, with six models that all have a weight, asked on the loopback by concurrent
  clients of this process: answers a second, the median and the 99th percentile of the seconds of a request, seconds of
  processor time per answer, and the memory of the service over time. The weights are applied to ranks, and to scores;
- the same of a propagation member alone, asked by one client and by concurrent ones;
- bulk: seconds per question of ``Ensemble.predict_many`` and of ``Ranker.pack``, which ranks the same queries with the
  same models, in turn in one process.

With ``--baseline``, a folder ``src`` of an older relens, that relens serves the same questions in between, for a
limited time. On a machine that is busy with other work, the processor time says more than the clock: two cores give at
most two seconds of it per second, and ``processor limit`` is the answers a second that they would last for.

    python benchmarks/bench_serving.py --dataset fb15k-237 --output docs/results/serving.json
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any
from urllib.parse import urlencode, urlsplit

import click
import numpy as np
import numpy.typing as npt
from environment import Target, describe, say, say_targets, write

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.grouping import Grouping
from relens.data.queries import DIRECTIONS
from relens.ensemble.weights import EnsembleWeights
from relens.packs.export import Ranker
from relens.prediction import Ensemble, Question
from relens.presets import PRESETS
from relens.runs import Run
from relens.training.loop import TrainingResult, new_model
from relens.training.presets import resolve_settings
from relens.training.trained import save_trained

MEMBERS = ("transe", "rotate", "house", "complex", "conve", "compgcn")
PROPAGATION = ("nbfnet",)
INPUTS = ("rank", "score")
WARM_UP = 32
"""Requests before the clock runs."""
SAMPLES = 20
"""How often the memory of the service is read."""
CORES = 2
"""Cores that the targets are stated for."""
ANSWERS_A_SECOND, P99_SECONDS, GROWTH = 150.0, 0.3, 1.02
PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")


@click.command()
@click.option("--dataset", "source", default="fb15k-237", show_default=True, help="A name, or a folder of TSV files.")
@click.option("--preset", type=click.Choice(PRESETS), default="best", show_default=True, help="The models' shapes.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change a setting of all models.")
@click.option("--requests", default=20_000, show_default=True, help="To an ensemble with weights of ranks.")
@click.option(
    "--others", default=1000, show_default=True, help="Requests with weights of scores, and to an older relens."
)
@click.option("--propagation", default=300, show_default=True, help="Requests to the propagation member.")
@click.option("--seconds", default=200.0, show_default=True, help="Time limit of each service.")
@click.option("--clients", default=16, show_default=True)
@click.option("--top", default=10, show_default=True, help="Answers to a question.")
@click.option("--bulk", default=512, show_default=True, help="Triples of test for the bulk comparison.")
@click.option("--repeats", default=3, show_default=True, help="Turns of the bulk comparison; their median counts.")
@click.option("--baseline", type=click.Path(exists=True, path_type=Path), help="Folder `src` of an older relens.")
@click.option("--seed", default=0, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write.  [default: stdout]")
def main(source: str, preset: str, changes: tuple[str, ...], output: Path | None, **rest: Any) -> None:
    """Measure the service and bulk prediction on one data set."""
    options = Options(**rest)
    dataset = load_dataset(source, offline=True)
    with TemporaryDirectory() as folder:
        bench = Bench(dataset, options, Path(folder))
        for name, members in (("six", MEMBERS), ("propagation", PROPAGATION)):
            bench.build(name, members, preset, changes)
        report = {
            "benchmark": "serving",
            "dataset": {"name": dataset.name, **dataset.counts},
            "settings": {"preset": preset, "changes": changes, "models": MEMBERS, **rest, "baseline": None},
            "environment": describe(),
            "services": bench.services(),
            "bulk": bench.bulk(),
        }
    targets = targets_of(report)
    report["targets"] = [target.to_json() for target in targets]
    write(report, output)
    say_targets(targets)


@dataclass(frozen=True)
class Options:
    """Settings of a run; see the options of the command."""

    requests: int
    others: int
    propagation: int
    seconds: float
    clients: int
    top: int
    bulk: int
    repeats: int
    baseline: Path | None
    seed: int


@dataclass
class Load:
    """What the clients saw: seconds of each request, and the service's memory in bytes over the requests."""

    seconds: list[float] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)
    wall: float = 0.0
    client: float = 0.0
    server: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the figures; memory grows from the first sample after a tenth of the requests to the last one."""
        n = len(self.seconds)
        settled = [size for at, size in self.memory if at >= n / 10]
        return {
            "answers": n,
            "seconds": self.wall,
            "answers_per_second": n / self.wall,
            "p50_seconds": float(np.quantile(self.seconds, 0.5)),
            "p99_seconds": float(np.quantile(self.seconds, 0.99)),
            "server_processor_seconds": self.server / n,
            "client_processor_seconds": self.client / n,
            "processor_limit": CORES * n / (self.server + self.client),
            "memory_bytes": [[at, size] for at, size in self.memory],
            "memory_growth": settled[-1] / settled[0],
        }


class Bench:
    """One data set, its runs in a folder, and everything that is measured on them."""

    def __init__(self, dataset: Dataset, options: Options, folder: Path) -> None:
        self.dataset, self.options, self.folder = dataset, options, folder

    def build(self, name: str, members: Sequence[str], preset: str, changes: Sequence[str]) -> None:
        """Make a run of models with random parameters, whose weights are equal."""
        data = self.dataset
        run = Run.create(self.folder / name, data.name)
        run.keep_graph(data)
        models = {}
        for member in members:
            settings = resolve_settings(data.name, member, preset, [*changes, f"seed={self.options.seed}"])
            models[member] = new_model(settings, data.train, len(data.entities), len(data.relations)).eval()
            result = TrainingResult(step=0, best_step=0, best_mrr=None, ending="steps")
            save_trained(models[member], settings, result, data, run.model_path(member) / "trained")
        scales = Ranker(models, data).fit_scales() if name == "six" else None
        for input in INPUTS if name == "six" else INPUTS[:1]:
            run.keep_weights(input, equal_weights(data, members, input, scales))

    def services(self) -> dict[str, Any]:
        """Measure every service; the older relens takes turns with this one."""
        options, found = self.options, {}
        for name, weights, requests in (("ranks", "rank", options.requests), ("scores", "score", options.others)):
            (found[name],) = self.service("six", weights, requests, (options.clients,))
            if options.baseline is not None:
                before = self.service("six", weights, options.others, (options.clients,), options.baseline)
                (found[f"{name}, before"],) = before
        clients = {"propagation, one client": 1, "propagation": options.clients}
        figures = self.service("propagation", "rank", options.propagation, tuple(clients.values()))
        found |= zip(clients, figures, strict=True)
        return found

    def service(
        self, run: str, weights: str, requests: int, clients: Sequence[int], source: Path | None = None
    ) -> list[dict[str, Any]]:
        """Start a service, ask it with each number of clients, and stop it."""
        found = []
        with serving(self.folder / run, weights, source) as (address, process):
            target = urlsplit(address)
            asked = [request(question, self.options.top, target.netloc) for question in self.questions(requests)]
            for n_clients in clients:
                at = str(target.hostname), int(target.port or 0), n_clients
                figures = asyncio.run(ask_all(asked, at, process, self.options.seconds)).to_json()
                say(
                    f"{run}, {weights}{', before' if source else ''}, {n_clients} clients: "
                    f"{figures['answers_per_second']:.1f} answers a second, {figures['processor_limit']:.1f} if "
                    f"{CORES} cores are idle; p50 {1e3 * figures['p50_seconds']:.0f} ms, "
                    f"p99 {1e3 * figures['p99_seconds']:.0f} ms"
                )
                found.append(figures)
        return found

    def questions(self, n: int) -> list[Question]:
        """Return n questions of the test split in random order; they repeat if it has fewer."""
        queries = self.dataset.queries("test")
        order = np.random.default_rng(self.options.seed).permutation(len(queries))
        return [self.question(int(order[at % len(order)])) for at in range(n)]

    def question(self, at: int) -> Question:
        """Return a query of the test split in labels."""
        queries = self.dataset.queries("test")
        entities, relations = self.dataset.entities.labels, self.dataset.relations.labels
        return entities[queries.anchor[at]], relations[queries.relation[at]], DIRECTIONS[queries.direction[at]]

    def bulk(self) -> dict[str, Any]:
        """Predict and rank the queries of some test triples, in turn."""
        options = self.options
        share = replace(self.dataset, test=self.dataset.test[: options.bulk])
        questions = Bench(share, options, self.folder)
        asked = [questions.question(at) for at in range(len(share.queries("test")))]
        run = Run.open(self.folder / "six")
        models = {name: run.model(name).load(self.dataset) for name in MEMBERS}
        ranker = Ranker(models, share)
        scales = run.weights("score").gap_scales
        ensembles = {input: Ensemble.open(run, input, "cpu") for input in INPUTS}
        turns: dict[str, list[tuple[float, float]]] = {"ranking": [], **{input: [] for input in INPUTS}}
        for turn in range(options.repeats + 1):
            some = asked if turn else asked[:WARM_UP]
            for name, taken in turns.items():
                begun = perf_counter(), process_time()
                if name != "ranking":
                    for _ in ensembles[name].predict_many(some, top=options.top):
                        pass
                elif turn:
                    ranker.pack("test", self.folder / f"pack-{turn}", scales)
                if turn:
                    taken.append((perf_counter() - begun[0], process_time() - begun[1]))
        return bulk_figures(turns, len(asked))


def bulk_figures(turns: dict[str, list[tuple[float, float]]], n: int) -> dict[str, Any]:
    """Return seconds per query and their ratios to ranking, medians over the turns, by the clock and the processor."""
    found: dict[str, Any] = {"queries": n}
    for name, taken in turns.items():
        wall, processor = (median(column) for column in zip(*taken, strict=True))
        found[name] = {"seconds": wall / n, "processor_seconds": processor / n}
        ratios = zip(taken, turns["ranking"], strict=True)
        pairs = [(own[0] / other[0], own[1] / other[1]) for own, other in ratios]
        found[name] |= {"ratio": median(p[0] for p in pairs), "processor_ratio": median(p[1] for p in pairs)}
        say(f"bulk, {name}: {1e3 * wall / n:.2f} ms per query, {found[name]['ratio']:.2f} of ranking")
    return found


def targets_of(report: dict[str, Any]) -> list[Target]:
    """Return the targets of the six models, and of bulk prediction."""
    services, bulk = report["services"], report["bulk"]
    found = []
    for name in ("ranks", "scores"):
        figures = services[name]
        found += [
            Target(f"answers a second, {name}", figures["answers_per_second"], "at least", ANSWERS_A_SECOND),
            Target(f"processor limit, answers a second, {name}", figures["processor_limit"], "at least", 150.0),
            Target(f"p99, seconds, {name}", figures["p99_seconds"], "at most", P99_SECONDS),
        ]
    found.append(Target("growth of memory, ranks", services["ranks"]["memory_growth"], "at most", GROWTH))
    found += [Target(f"bulk over ranking, {name}", bulk[name]["ratio"], "at most", 1.0) for name in INPUTS]
    return found


def equal_weights(
    dataset: Dataset, models: Sequence[str], input: str, scales: npt.NDArray[np.float64] | None
) -> EnsembleWeights:
    """Return equal weights of all models in all groups."""
    grouping = Grouping.by_relation_and_direction(dataset.relations.labels)
    ones = np.ones((len(grouping), len(models)), dtype=np.int64)
    return EnsembleWeights(
        models=tuple(models),
        relations=dataset.relations.labels,
        grouping=grouping,
        table=ones,
        own=np.ones(len(grouping), dtype=bool),
        fallback=ones[0],
        support=np.zeros(len(grouping), dtype=np.int64),
        input=input,
        dataset=(dataset.name, dataset.fingerprint),
        gap_scales=scales,
    )


@contextmanager
def serving(run: Path, weights: str, source: Path | None) -> Iterator[tuple[str, int]]:
    """Serve a run in a process of its own; yield its address and its number."""
    command = [sys.executable, "-m", "relens", "serve", str(run), "--weights", weights, "--port", "0"]
    environment = dict(os.environ) if source is None else {**os.environ, "PYTHONPATH": str(source.resolve())}
    log = run.parent / "requests.log"
    process = subprocess.Popen(
        [*command, "--device", "cpu", "--access-log", str(log)], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if "serving at " in line:
                break
        else:
            raise click.ClickException(f"the service did not start:\n{''.join(lines)}")
        yield line.split("serving at ")[1].split()[0], process.pid
    finally:
        process.terminate()
        process.communicate()


def request(question: Question, top: int, host: str) -> bytes:
    """Return the bytes of a request."""
    anchor, relation, direction = question
    given = {"head" if direction == "tail" else "tail": anchor, "relation": relation, "top": top}
    return f"GET /api/predict?{urlencode(given)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


async def ask_all(asked: Sequence[bytes], at: tuple[str, int, int], process: int, limit: float) -> Load:
    """Send requests from concurrent clients, each on its own connection, until all are answered or time is up.

    ``at`` is the host, the port and the number of clients.
    """
    load = Load()
    await _ask(asked[:WARM_UP], at, Load(), limit, process)
    begun = perf_counter(), process_time(), processor_seconds(process)
    await _ask(asked, at, load, limit, process)
    load.wall, load.client = perf_counter() - begun[0], process_time() - begun[1]
    load.server = processor_seconds(process) - begun[2]
    load.memory.append((len(load.seconds), resident(process)))
    return load


async def _ask(asked: Sequence[bytes], at: tuple[str, int, int], load: Load, limit: float, process: int) -> None:
    waiting, end = iter(asked), perf_counter() + limit
    every = max(1, len(asked) // SAMPLES)

    async def client() -> None:
        reader, writer = await asyncio.open_connection(*at[:2])
        for message in waiting:
            begun = perf_counter()
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            body = await reader.readexactly(length)
            if not head.startswith(b"HTTP/1.1 200"):
                raise click.ClickException(f"the service answered {(head + body)[:500]!r}")
            load.seconds.append(perf_counter() - begun)
            if len(load.seconds) % every == 0:
                load.memory.append((len(load.seconds), resident(process)))
            if perf_counter() > end:
                break
        writer.close()

    await asyncio.gather(*(client() for _ in range(at[2])))


def resident(process: int) -> int:
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE


def processor_seconds(process: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


if __name__ == "__main__":
    main()
