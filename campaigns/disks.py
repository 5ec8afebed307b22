"""Disks: let the space run out under the verbs that write, and run the same command again with enough of it.

``python -m campaigns disks --seed 0`` attacks in a process of its own. Where the system allows it, that process has a
small file system for itself, whose space or number of files ends at random amounts; everywhere else, the size of a file
is limited instead.
"""

import contextlib
import json
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from campaigns.compared import contents
from campaigns.forks import warm_up
from campaigns.older import write_older
from campaigns.tally import Tally
from campaigns.tiny import CHANGES, MODELS, write_questions, write_ring
from relens.files import is_left_over

PATIENCE_S = 600.0
"""Limit of a command; only a hang takes this long."""
ROOM = 2**28
"""Bytes of the file system when space is no problem."""
FILES = 10_000
PAGE = 4096
QUICKLY = ("--preset", "demo", "--device", "cpu", *(f"--set={change}" for change in CHANGES))
PIPELINE = ("run", "ring", "--models", ",".join(MODELS), "--jobs", "1", *QUICKLY)
ASKED = ("run", "--weights", "mean", "--device", "cpu")
PARTS = ".parts"
"""Ends the name of a folder with finished work, which may stay until the command is complete."""


class Verb(NamedTuple):
    """A command that writes.

    Attributes:
        words: the command line.
        tries: in the full campaign.
        finished: whether it works on the finished run; else on the graph alone.
    """

    words: tuple[str, ...]
    tries: int
    finished: bool = True


VERBS = {
    "run": Verb((*PIPELINE, "--run", "run"), 16, finished=False),
    "run --force report": Verb((*PIPELINE, "--run", "run", "--force", "report"), 4),
    "train": Verb(("train", "ring", "--model", "rotate", "--run", "trained", *QUICKLY), 6, finished=False),
    "rank": Verb(("rank", "run", "--device", "cpu", "--force"), 6),
    "ranks add": Verb(
        ("ranks", "add", "run", "--scorer", "degrees=campaigns.scorer:Degrees", "--trust", "--jobs", "1"), 6
    ),
    "data import": Verb(("data", "import", "ring", "--name", "mine", "--force"), 6, finished=False),
    "data sample-negatives": Verb(
        ("data", "sample-negatives", "ring", "--per-query", "3", "-o", "sampled"), 6, finished=False
    ),
    "search": Verb(("search", "run", "--name", "again", "--jobs", "1"), 6),
    "calibrate": Verb(("calibrate", *ASKED), 4),
    "compare": Verb(("compare", "run", "mean", "dsc", "-o", "methods.txt", "--jobs", "1"), 4),
    "evaluate": Verb(("evaluate", "run", "--weights", "mean", "-o", "table.txt", "--jobs", "1"), 4),
    "evaluate relations": Verb(("evaluate", *ASKED, "--question", "relation"), 4),
    "evaluate classes": Verb(("evaluate", *ASKED, "--question", "classify"), 4),
    "report": Verb(("report", "run"), 10),
    "predict": Verb(("predict", *ASKED, "--queries", "questions.tsv", "-o", "answers.jsonl"), 6),
    "predict relations": Verb(("predict", *ASKED, "--queries", "pairs.tsv", "-o", "relations.tsv"), 4),
    "score": Verb(("score", *ASKED, "--triples", "triples.tsv", "-o", "scored.csv"), 4),
    "classify": Verb(("classify", *ASKED, "--triples", "triples.tsv", "-o", "classified.tsv"), 4),
    "discover": Verb(("discover", *ASKED, "--candidates", "all", "--each", "-o", "new.tsv"), 8),
    "ranks import": Verb(("ranks", "import", "scores", "--layout", "scores", "--run", "imported", "--jobs", "1"), 6),
    "ranks export": Verb(("ranks", "export", "run", "-o", "ranks.csv", "--jobs", "1"), 4),
    "ranks reduce": Verb(("ranks", "reduce", "run", "-o", "ranks.npz", "--jobs", "1"), 4),
    "ranks expand": Verb(("ranks", "expand", "small.npz", "--run", "expanded", "--jobs", "1"), 6),
    "weights export": Verb(("weights", "export", "run", "--weights", "mean", "-o", "weights.npy"), 4),
    "weights import": Verb(("weights", "import", "run", "mean.csv", "--name", "theirs", "--force"), 4),
    "upgrade": Verb(("upgrade", "older", "--data", "ring"), 6),
}


class CommandResult(NamedTuple):
    """The exit code of a command, and its output."""

    code: int
    text: str


@dataclass(frozen=True)
class Disk:
    """The folder that the commands write to.

    Attributes:
        path: the folder.
        mounted: whether it is a file system of its own.
    """

    path: Path
    mounted: bool

    def fill(self, template: Path) -> None:
        """Replace what is there by the content of a folder."""
        self.widen()
        for left in self.path.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        shutil.copytree(template, self.path, dirs_exist_ok=True)
        (self.path / "temporary").mkdir(exist_ok=True)

    def used(self) -> tuple[int, int]:
        """Return the pages and the number of files in use."""
        found = os.statvfs(self.path)
        return (found.f_blocks - found.f_bfree) * found.f_frsize // PAGE, found.f_files - found.f_ffree

    def narrow(self, *, pages: int = ROOM // PAGE, files: int = FILES) -> None:
        """Leave room for some more pages and files."""
        used, present = self.used()
        self._remount(f"size={min(ROOM, (used + pages) * PAGE)},nr_inodes={min(FILES, present + files)}")

    def widen(self) -> None:
        """Make room."""
        if self.mounted:
            self._remount(f"size={ROOM},nr_inodes={FILES}")

    def _remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)


def relens(words: Sequence[str], folder: Path, longest: int | None = None) -> CommandResult:
    """Run a command in a fork of this process, which has loaded everything; return its code and what it printed.

    Args:
        words: the command line.
        folder: where it runs.
        longest: the most bytes of a file that it can write.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(BaseException):
            os.close(reading)
            code = _command(words, folder, writing, longest)
        os._exit(code)
    os.close(writing)
    text, end = b"", time.monotonic() + PATIENCE_S
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while (left := end - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0]:
            if not (more := pipe.read(2**16)):
                break
            text += more
        else:
            os.kill(child, signal.SIGKILL)
            text += f"\nnothing happened for {PATIENCE_S} s".encode()
    return CommandResult(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text.decode(errors="replace"))


def _command(words: Sequence[str], folder: Path, output: int, longest: int | None) -> int:
    """Run a command in this process, as ``python -m relens`` does."""
    from relens.cli import main

    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    os.environ |= {"RELENS_HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary"), "COLUMNS": "1000"}
    sys.argv = ["relens", *words]
    if longest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


class Expected(NamedTuple):
    """What a command makes with enough space, and the pages, files and longest file it needs."""

    content: dict[str, bytes]
    pages: int
    files: int
    longest: int


def everything(disk: Path) -> dict[str, bytes]:
    """Return what must be equal on two disks: files, and the contents of runs without logs."""
    found: dict[str, bytes] = {}
    for place in sorted(disk.iterdir()):
        if place.name in ("temporary", "home"):
            continue
        if place.is_dir():
            found |= {f"{place.name}/{name}": content for name, content in contents(place).items()}
        else:
            found[place.name] = place.read_bytes()
    home = disk / "home" / "datasets"
    return found | {str(file.relative_to(disk)): file.read_bytes() for file in home.rglob("*.t*") if file.is_file()}


def templates(disk: Disk, folder: Path) -> dict[bool, Path]:
    """Make the two contents that commands begin with: the graph alone, and the finished run with files to import."""
    graph, finished = folder / "graph", folder / "finished"
    graph.mkdir()
    write_ring(graph)
    disk.fill(graph)
    _expect(relens(VERBS["run"].words, disk.path))
    _expect(relens(("weights", "export", "run", "--weights", "mean", "-o", "mean.csv"), disk.path))
    _expect(relens(("ranks", "reduce", "run", "-o", "small.npz", "--jobs", "1"), disk.path))
    _write_scores(disk.path / "scores")
    write_questions(disk.path, disk.path / "ring")
    write_older(shutil.copytree(disk.path / "run", disk.path / "older"))
    shutil.copytree(disk.path, finished)
    return {False: graph, True: finished}


def _write_scores(folder: Path) -> None:
    """Write scores of six queries and five entities, for two models and splits."""
    import numpy as np

    folder.mkdir()
    rng = np.random.default_rng(0)
    for split in ("valid", "test"):
        rows = [(at % 5, at % 2, ("tail", "head")[at % 2], (at + 2) % 5) for at in range(6)]
        (folder / f"{split}_queries.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
        for model in ("x", "y"):
            np.save(folder / f"{model}_{split}_scores.npy", rng.normal(size=(6, 5)).astype(np.float32))


def _expect(ended: CommandResult) -> None:
    if ended.code:
        raise SystemExit(f"a command that the attacks need fails with enough space:\n{ended.text}")


def expected(disk: Disk, verb: Verb, template: Path) -> Expected:
    """Run a command with enough space."""
    disk.fill(template)
    before, (pages, files) = _sizes(disk.path), disk.used()
    _expect(relens(verb.words, disk.path))
    written = [size for key, size in _sizes(disk.path).items() if key not in before] or [1]
    pages = max(sum(-(-size // PAGE) for size in written), disk.used()[0] - pages)
    return Expected(everything(disk.path), pages, max(len(written), disk.used()[1] - files), max(written))


def _sizes(disk: Path) -> dict[tuple[Path, int], int]:
    """Return the size of each file; a file that was written again has another key."""
    return {(path, path.stat().st_ctime_ns): path.stat().st_size for path in disk.rglob("*") if path.is_file()}


def attempt(disk: Disk, verb: Verb, template: Path, result: Expected, limit: tuple[str, int]) -> str | None:
    """Run a command with too little space, then with enough; return the defect."""
    kind, amount = limit
    disk.fill(template)
    before = everything(disk.path)
    if kind != "longest":
        disk.narrow(**{kind: amount})
    first = relens(verb.words, disk.path, amount if kind == "longest" else None)
    disk.widen()
    if defect := _badly_ended(first) or _half_written(disk.path, before, result.content, first.code):
        return defect
    if first.code == 0:
        return None
    second = relens(verb.words, disk.path)
    if second.code:
        return f"with enough space the same command ends with {second.code}: {second.text[-1500:]}"
    return _difference("the same command with enough space", everything(disk.path), result.content)


def _badly_ended(ended: CommandResult) -> str | None:
    if ended.code not in (0, 1):
        return f"ends with {ended.code}, expected 1: {ended.text[-1500:]}"
    if "Traceback" in ended.text or "Exception ignored" in ended.text:
        return f"prints a traceback: {ended.text[-3000:]}"
    if ended.code == 1 and "free some space" not in " ".join(ended.text.split()):
        return f"does not say what to do: {ended.text[-1500:]}"
    return None


def _half_written(disk: Path, before: dict[str, bytes], result: dict[str, bytes], code: int) -> str | None:
    if code == 0:
        return _difference("with little space", everything(disk), result)
    if left := [str(path.relative_to(disk)) for path in disk.rglob("*") if is_left_over(path)]:
        return f"leaves {', '.join(left)}"
    for name, content in everything(disk).items():
        if not Path(name).parent.name.endswith(PARTS) and content not in (before.get(name), result.get(name)):
            return f"leaves {name} half-written: {content[:200]!r}"
    return None


def _difference(what: str, found: dict[str, bytes], result: dict[str, bytes]) -> str | None:
    if missing := sorted(result.keys() ^ found.keys()):
        return f"{what}: files differ: {', '.join(missing[:5])}"
    different = [name for name in result if found[name] != result[name]]
    return f"{what}: {', '.join(different[:5])} differ" if different else None


def attack(amount: float, seed: int, folder: Path, *, mounted: bool) -> dict[str, Tally]:
    """Attack all verbs; the caller has given this process a file system at ``folder / "disk"`` if it is mounted."""
    warm_up()
    disk = Disk(folder / "disk", mounted)
    disk.widen()
    starts = templates(disk, folder)
    tallies = {name: Tally() for name in VERBS}
    for name, verb in VERBS.items():
        if not (tries := round(amount * verb.tries)):
            continue
        result = expected(disk, verb, starts[verb.finished])
        chosen = random.Random(f"{seed} {name}")
        for _ in range(tries):
            limit = _limit(chosen, result, mounted=mounted)
            defect = attempt(disk, verb, starts[verb.finished], result, limit)
            place = f"relens {' '.join(verb.words)} with {limit[1]} {limit[0]}"
            tallies[name].note(None if defect is None else f"{place}: {defect}")
        print(f"{name}: {tallies[name]}", flush=True)
    return tallies


def _limit(chosen: random.Random, result: Expected, *, mounted: bool) -> tuple[str, int]:
    """Choose what runs out, and after how much: small amounts as often as large ones."""
    kind = chosen.choice(["pages", "pages", "pages", "files", "longest"]) if mounted else "longest"
    most = {"pages": result.pages, "files": result.files, "longest": result.longest}[kind]
    share = chosen.random() ** chosen.choice([1, 3])
    return kind, int(share * most)


def campaign(amount: float, seed: int, folder: Path) -> dict[str, Tally]:
    """Attack in two processes with a file system each, if they can have one."""
    mountable = mountable_at(folder)
    if not mountable:
        print("disks: no file system can be mounted here, so the size of files is limited instead", flush=True)
    places = [folder / str(number) for number in range(2 if amount >= 0.5 else 1)]
    share = amount / len(places)
    attackers = [_start(share, 2 * seed + number, place, mountable) for number, place in enumerate(places)]
    tallies: dict[str, Tally] = {}
    for attacker, place in zip(attackers, places, strict=True):
        if attacker.wait():
            raise SystemExit(f"the attacks on disks could not be made:\n{(place / 'log').read_text()}")
        for name, found in json.loads((place / "found.json").read_text()).items():
            tally = tallies.setdefault(name, Tally())
            tally.tried, tally.survived = tally.tried + found["tried"], tally.survived + found["survived"]
            tally.defects += found["defects"]
    return tallies


MOUNT = 'mount -t tmpfs -o size={room},nr_inodes={files} relens-disk "$0" && exec "$@"'


def in_a_namespace(disk: Path, *command: str) -> list[str]:
    """Return a command line that mounts a file system which nobody else sees, and which ends with the command."""
    script = MOUNT.format(room=ROOM, files=FILES)
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", script, str(disk), *command]


def mountable_at(folder: Path) -> bool:
    """Say whether a file system can be mounted at a folder."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(in_a_namespace(folder, "true"), capture_output=True, check=False).returncode == 0


def _start(amount: float, seed: int, folder: Path, mounted: bool) -> "subprocess.Popen[bytes]":
    (folder / "disk").mkdir(parents=True)
    command = [sys.executable, "-m", "campaigns.disks", str(amount), str(seed), str(folder), str(int(mounted))]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "log").open("wb") as log:
        wrapped = in_a_namespace(folder / "disk", *command) if mounted else command
        return subprocess.Popen(wrapped, stdout=log, stderr=log, env=environment)


def _main(amount: str, seed: str, folder: str, mounted: str) -> None:
    found = attack(float(amount), int(seed), Path(folder), mounted=mounted == "1")
    text = json.dumps({name: vars(tally) for name, tally in found.items()})
    (Path(folder) / "found.json").write_text(text)


if __name__ == "__main__":
    _main(*sys.argv[1:])
