"""Kills: end commands at random moments, and check that nothing lives on, and that the same command recovers.

``python -m campaigns kills --seed 0`` trains a tiny run and kills commands that write. Linux only.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from campaigns.compared import contents
from campaigns.forks import Server
from campaigns.older import write_older
from campaigns.sessions import Patience, members
from campaigns.tally import Tally
from campaigns.tiny import MODELS, write_questions, write_ring
from relens.errors import counted

KILLS = 100
"""Kills of the full campaign."""
WIDTH = 2
"""Commands at a time."""
SECONDS_TO_DIE = 2.0
"""Workers must end that long after the command, without the time that the machine let them wait for a core."""
INTERRUPTED = 130
"""The exit code of a command that was asked to end."""
SIGNALS = (*[signal.SIGKILL] * 7, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TO_ALL = (signal.SIGINT, signal.SIGHUP)
"""Signals that terminals send to workers, too."""
PLAN = """\
dataset = "{graph}"
models = {models}
preset = "demo"
methods = ["mean", "simple"]
set = {{ dim = 8, steps = 300, validate_every = 30, batch = 64 }}
"""


@dataclass(frozen=True)
class Command:
    """A command that is killed.

    Attributes:
        name: of its attack.
        words: its command line; INPUTS stands for the folder of its inputs, RUN for a copy of the run.
        share: how many of the kills of the full campaign it gets.
        without: what is removed from the copy before it starts.
        copied: the folder of the inputs that RUN is a copy of; empty if the command makes RUN.
    """

    name: str
    words: str
    share: int
    without: tuple[str, ...] = ()
    copied: str = "run"

    def line(self, inputs: Path) -> list[str]:
        """Return the words of the command line."""
        return [word.replace("INPUTS", str(inputs)).replace("RUN", "run") for word in self.words.split()]

    def prepare(self, inputs: Path, folder: Path) -> None:
        """Make the folder that the command runs in, with a copy of the run."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if self.copied:
            shutil.copytree(inputs / self.copied, folder / "run")
        for name in self.without:
            if (folder / "run" / name).is_dir():
                shutil.rmtree(folder / "run" / name)
            else:
                (folder / "run" / name).unlink(missing_ok=True)


LATER = ("ranks", "stages", "weights", "calibrations", "reliability", "comparison.json", "report")
"""What the stages of a run after training leave."""
WHOLE = "run --config INPUTS/plan.toml --run RUN --device cpu --jobs 2"
TRAINING = "--set dim=8 --set steps=300 --set validate_every=30 --set batch=64"
ASKED = "RUN --weights mean --device cpu"
COMMANDS = (
    Command("run from the beginning", f"{WHOLE} --no-report", 16, copied=""),
    Command("run after training", WHOLE, 14, LATER),
    Command("train", f"train INPUTS/ring --model rotate --run RUN --preset demo --device cpu {TRAINING}", 4, copied=""),
    Command("rank", "rank RUN --device cpu --force", 3),
    Command("ranks add", "ranks add RUN --scorer degrees=campaigns.scorer:Degrees --trust --device cpu --jobs 1", 4),
    Command("search", "search RUN --method simple --name found --jobs 2", 3),
    Command("search in processes", "search RUN --method simple --name found --backend loky --jobs 2", 3),
    Command("calibrate", f"calibrate {ASKED}", 4),
    Command("evaluate", "evaluate RUN --weights mean --jobs 2", 2),
    Command("evaluate relations", f"evaluate {ASKED} --question relation", 2),
    Command("evaluate classes", f"evaluate {ASKED} --question classify", 2),
    Command("compare", "compare RUN mean simple --jobs 2 --format csv -o table.csv", 3),
    Command("report", "report RUN", 3),
    Command("predict", f"predict {ASKED} --queries INPUTS/questions.tsv -o found.tsv", 3),
    Command("predict relations", f"predict {ASKED} --queries INPUTS/pairs.tsv -o found.jsonl", 2),
    Command("score", f"score {ASKED} --triples INPUTS/triples.tsv -o scored.tsv", 4),
    Command("classify", f"classify {ASKED} --triples INPUTS/triples.tsv -o classified.csv", 3),
    Command("discover", f"discover {ASKED} --candidates all --each -o new.tsv", 5),
    Command("ranks import", "ranks import INPUTS/scores --layout scores --run imported --force --jobs 2", 3),
    Command("ranks export", "ranks export RUN -o ranks.csv", 2),
    Command("ranks reduce", "ranks reduce RUN -o ranks.npz", 2),
    Command("ranks expand", "ranks expand INPUTS/ranks.npz --run expanded --force --jobs 2", 2),
    Command("weights export", "weights export RUN --weights mean -o weights.csv", 2),
    Command("weights import", "weights import RUN INPUTS/weights.json --name mine --force", 2),
    Command("upgrade", "upgrade RUN --data INPUTS/ring", 4, copied="older"),
    Command("simulate", "simulate --run simulated --jobs 2", 1),
    Command("sample negatives", "data sample-negatives INPUTS/ring --per-query 3 -o sampled --force", 2),
)


@dataclass(frozen=True)
class Expected:
    """The result of a command that runs to its end.

    Attributes:
        seconds: its duration.
        contents: its files, as ``left_behind`` returns them.
    """

    seconds: float
    contents: dict[str, bytes]


@dataclass(frozen=True)
class Place:
    """Where commands run, one at a time.

    Attributes:
        server: starts them.
        inputs: their inputs: a graph, a run, and files of other tools.
        folder: an empty folder, and the name of everything below it: results name it, so it is the same each time.
    """

    server: Server
    inputs: Path
    folder: Path

    @property
    def output(self) -> Path:
        """The file with what a command prints."""
        return self.folder / "output"

    def run(self, words: list[str]) -> int:
        """Run a command and return its exit code."""
        self.server.start(words, self.folder / "work", self.output)
        return self.server.code()

    def measure(self, command: Command) -> Expected:
        """Run a command twice, as kernels are compiled the first time; return what it does the second time."""
        for _ in range(2):
            command.prepare(self.inputs, self.folder / "work")
            begin = time.monotonic()
            if self.run(command.line(self.inputs)):
                raise SystemExit(f"{command.name} fails by itself:\n{self.output.read_text()}")
            seconds = time.monotonic() - begin
        return Expected(seconds, left_behind(self.folder / "work"))

    def kill(self, command: Command, expected: Expected, moment: float, number: signal.Signals) -> str | None:
        """Kill a command at a share of its time and run it again; return what is wrong."""
        command.prepare(self.inputs, self.folder / "work")
        self.output.write_bytes(b"")
        process = self.server.start(command.line(self.inputs), self.folder / "work", self.output)
        time.sleep(moment * expected.seconds)
        with suppress(ProcessLookupError):  # it has ended already
            (os.killpg if number in TO_ALL else os.kill)(process, number)
        code = self.server.code()
        where = f"{command.name}, {number.name} at {moment * expected.seconds:.2f} s of {expected.seconds:.2f} s"
        if code not in (0, INTERRUPTED, -number):
            return f"{where}: ended with {code}:\n{self._messages()}"
        if left := survivors(process):
            return f"{where}: {counted(left, 'process', 'processes')} survived"
        if again := self.run(command.line(self.inputs)):
            return f"{where}: the same command ends with {again}:\n{self._messages()}"
        return compare(where, expected.contents, left_behind(self.folder / "work"))

    def _messages(self) -> str:
        return self.output.read_text(errors="replace")[-600:]


def survivors(session: int) -> int:
    """Wait for the end of all processes of a session; kill those that live for too long, and return how many."""
    patience = Patience(session, SECONDS_TO_DIE)
    while living := members(session):
        if patience.is_over():
            for process in living:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            return len(living)
        time.sleep(0.02)
    return 0


def left_behind(folder: Path) -> dict[str, bytes]:
    """Return what a command must leave in its folder, by name: folders, and the bytes of files but logs."""
    folders = (path.relative_to(folder) for path in folder.rglob("*") if path.is_dir())
    return {**{f"{path}/": b"" for path in folders}, **contents(folder)}


def compare(where: str, expected: dict[str, bytes], found: dict[str, bytes]) -> str | None:
    """Return how the files that a command left after a kill differ from what it leaves without one."""
    if lost := sorted(expected.keys() - found.keys()):
        return f"{where}: afterwards there is no {lost[0]}"
    if more := sorted(found.keys() - expected.keys()):
        return f"{where}: afterwards there is also {more[0]}"
    if differing := [name for name in sorted(expected) if expected[name] != found[name]]:
        return f"{where}: afterwards {', '.join(differing)} differ"
    return None


def write_inputs(folder: Path, server: Server) -> Path:
    """Write what commands read, and train a run; return the folder with all of it."""
    inputs = folder / "inputs"
    inputs.mkdir()
    graph = write_ring(inputs)
    (inputs / "plan.toml").write_text(PLAN.format(graph=graph, models=list(MODELS)))
    write_questions(inputs, graph)
    write_scores(inputs / "scores", graph)
    made = ("weights export RUN --weights mean -o weights.json", "ranks reduce RUN -o ranks.npz")
    for words in (WHOLE, *made):
        server.start(Command("", words, 0).line(inputs), inputs, folder / "output")
        if server.code():
            raise SystemExit(f"the run that is killed cannot be made:\n{(folder / 'output').read_text()}")
    write_older(shutil.copytree(inputs / "run", inputs / "older"))
    return inputs


def write_scores(folder: Path, graph: Path) -> None:
    """Write the scores of two models for the ring as another tool would."""
    folder.mkdir()
    scores = np.random.default_rng(0)
    (folder / "entities.txt").write_text("".join(f"e{i}\n" for i in range(12)))
    for split in ("valid", "test"):
        triples = [line.split("\t") for line in (graph / f"{split}.txt").read_text().splitlines()]
        asked = [query for h, r, t in triples for query in ((h, r, "tail", t), (t, r, "head", h))]
        (folder / f"{split}_queries.tsv").write_text("".join("\t".join(query) + "\n" for query in asked))
        for model in MODELS:
            np.save(folder / f"{model}_{split}_scores.npy", scores.random((len(asked), 12), dtype=np.float32))


@contextmanager
def places(folder: Path) -> Iterator[list[Place]]:
    """Yield places to run commands in."""
    with ExitStack() as stack:
        servers = []
        for number in range(WIDTH):
            (folder / f"tmp{number}").mkdir()
            servers.append(Server(folder / f"tmp{number}"))
            stack.callback(servers[-1].close)
        inputs = write_inputs(folder, servers[0])
        for number in range(WIDTH):
            (folder / f"place{number}").mkdir()
        yield [Place(server, inputs, folder / f"place{number}") for number, server in enumerate(servers)]


def campaign(amount: float, seed: int, folder: Path) -> dict[str, Tally]:
    """Kill commands, and return the tally of each command by name.

    Args:
        amount: the share of the full campaign, which has ``KILLS``.
        seed: of the commands, moments and signals.
        folder: an empty folder for the run and its copies.
    """
    draw = random.Random(seed)
    tries = draw.sample([command for command in COMMANDS for _ in range(command.share)], max(1, round(KILLS * amount)))
    found = {command.name: Tally() for command in COMMANDS if command in tries}
    with places(folder) as free:
        idle: SimpleQueue[Place] = SimpleQueue()
        for place in free:
            idle.put(place)

        def measured(command: Command) -> Expected:
            with taken(idle) as place:
                return place.measure(command)

        def killed(asked: tuple[Command, float, signal.Signals]) -> str | None:
            with taken(idle) as place:
                return place.kill(asked[0], expecteds[asked[0]], asked[1], asked[2])

        asked = [(command, draw.random(), draw.choice(SIGNALS)) for command in tries]
        with ThreadPoolExecutor(WIDTH) as pool:
            commands = list(dict.fromkeys(tries))
            expecteds = dict(zip(commands, pool.map(measured, commands), strict=True))
            for (command, _, _), defect in zip(asked, pool.map(killed, asked), strict=True):
                found[command.name].note(defect)
    return found


@contextmanager
def taken(idle: "SimpleQueue[Place]") -> Iterator[Place]:
    """Take a place, and give it back."""
    place = idle.get()
    try:
        yield place
    finally:
        idle.put(place)
