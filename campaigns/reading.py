"""A run with everything that a run can hold, and the commands that read it.

``python -m campaigns.reading GRAPH RUN`` makes the run.
"""

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from campaigns.compared import contents
from campaigns.tiny import CHANGES, MODELS

METHODS = ("mean", "mrr-mean", "simple", "dsc")
PLAN = (
    "--models", ",".join(MODELS), "--preset", "demo", "--device", "cpu", "--jobs", "1",
    *(word for change in CHANGES for word in ("--set", change)),
)  # fmt: skip
BEGUN = (
    "--model", "transe", "--name", "begun", "--preset", "demo", "--device", "cpu", "--seed", "7",
    *(word for change in CHANGES for word in ("--set", change)),
)  # fmt: skip
JOINED = "joined"
"""A second run inside the run, of members that ``relens ranks add`` added, so that damages reach both."""
FOUND = "found.tsv"
"""A file in the run that an interrupted discovery has left parts of."""
OTHERS = ("models/begun/", "evaluations/", "search.jsonl", JOINED, FOUND)
"""What other commands than ``relens run`` left in the run."""
MEMBER = ("--scorer", "degrees=campaigns.scorer:Degrees", "--trust", "--device", "cpu", "--jobs", "1")
AGAIN = tuple(word.replace("degrees=", "again=") for word in MEMBER)
DISCOVERY = ("--weights", "dsc", "--device", "cpu", "--candidates", "all", "--depth", "4", "--each")


@dataclass(frozen=True)
class Answer:
    """What a command gives.

    Attributes:
        code: its exit code; None if it ended with a traceback.
        output: what must be the same for the same run.
        said: its messages.
    """

    code: int | None
    output: Any
    said: str


Verb = Callable[[Path, Path, Path], Answer]
"""A command: gets the graph, a run that it may change, and an empty folder."""


def relens(*words: object) -> Answer:
    """Run the command line in this process."""
    from relens.cli import main

    out, err = StringIO(), StringIO()
    argv = ["relens", *map(str, words)]
    code: int | None = None
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc(file=err)
    return Answer(code, out.getvalue(), err.getvalue())


def printing(*words: str) -> Verb:
    """Return a command whose output is what it prints, and the file ``OUT`` if it writes that; ``RUN`` is the run."""

    def verb(graph: Path, run: Path, folder: Path) -> Answer:
        del graph
        places = {"RUN": str(run), "OUT": str(folder / "out")}
        answer = relens(*(places.get(word[:3], word[:3]) + word[3:] for word in words))
        return Answer(answer.code, [_plain(answer.output, run, folder), contents(folder)], answer.said)

    return verb


def changing(kept: str, *words: str) -> Verb:
    """Return a command whose output is also what it leaves below ``kept``, a path in the run."""

    def verb(graph: Path, run: Path, folder: Path) -> Answer:
        answer = printing(*words)(graph, run, folder)
        made = {name: content for name, content in contents(run).items() if name.startswith(kept)}
        return Answer(answer.code, [answer.output, made], answer.said)

    return verb


def running(graph: Path, run: Path, folder: Path) -> Answer:
    """Repeat the ``relens run`` that made the run. Its output is the run, without the work of other commands."""
    del folder
    answer = relens("run", graph, "--run", run, "--config", _methods(graph), *PLAN)
    made = {name: _value(name, content) for name, content in contents(run).items() if not name.startswith(OTHERS)}
    return Answer(answer.code, [answer.output, made], answer.said)


def _value(name: str, content: bytes) -> Any:
    """Return what a file says: a damaged layout of JSON, such as a missing line end, is no damage."""
    if name.endswith(".json"):
        with suppress(ValueError):
            return json.loads(content)
    return content


def serving(graph: Path, run: Path, folder: Path) -> Answer:
    """Start the service, without serving."""
    del graph, folder
    with patch("relens.serve.server.serve", lambda app, listener: None):
        answer = relens("serve", run, "--port", "0", "--weights", "dsc", "--device", "cpu")
    return Answer(answer.code, answer.output, answer.said)


def searching_again(graph: Path, run: Path, folder: Path) -> Answer:
    """Resume the search on a cluster that was interrupted."""
    del graph, folder
    return _calling(lambda: _search_remotely(run))


def evaluation(graph: Path, run: Path, folder: Path) -> Answer:
    """Load the evaluation that the run keeps."""
    del graph, folder
    from relens.runs import open_run

    return _calling(lambda: open_run(run).evaluation("dsc").to_json())


ASKED = ("--weights", "dsc", "--device", "cpu", "--json")
TRIPLE = ("--head", "e3", "--relation", "next", "--tail", "e6")
VERBS: dict[str, Verb] = {
    "predict": printing("predict", "RUN", "--head", "e3", "--relation", "next", *ASKED),
    "predict types": printing("predict", "RUN", "--tail", "e3", "--relation", "next", "--candidates", "types", *ASKED),
    "predict relations": printing("predict", "RUN", "--head", "e3", "--tail", "e6", *ASKED),
    "predict with members": printing(
        "predict", f"RUN/{JOINED}", "--head", "e3", "--relation", "next", "--weights", "mean", "--trust", "--json"
    ),
    "score": printing("score", "RUN", *TRIPLE, *ASKED),
    "classify": printing("classify", "RUN", *TRIPLE, *ASKED),
    "discover": changing(FOUND, "discover", "RUN", *DISCOVERY, "-o", f"RUN/{FOUND}"),
    "serve": serving,
    "calibrate": changing("calibrations", "calibrate", "RUN", "--weights", "dsc", "--device", "cpu"),
    "evaluate": printing("evaluate", "RUN", "--weights", "dsc", "--json", "--jobs", "1"),
    "evaluate --model": printing("evaluate", "RUN", "--model", "transe", "--json", "--jobs", "1"),
    "evaluate relations": printing("evaluate", "RUN", "--question", "relation", *ASKED),
    "evaluate classes": printing("evaluate", "RUN", "--question", "classify", *ASKED),
    "evaluation": evaluation,
    "compare": printing("compare", "RUN", "mean", "best-single", "--jobs", "1"),
    "compare --with": printing("compare", "RUN", "--with", f"RUN/{JOINED}", "--weights", "mean", "--jobs", "1"),
    **{f"weights show {name}": printing("weights", "show", "RUN", "--weights", name) for name in METHODS},
    "weights export": printing("weights", "export", "RUN", "--weights", "simple", "-o", "OUT.csv"),
    "data show": printing("data", "show", "RUN/graph"),
    "ranks show": printing("ranks", "show", "RUN", "--jobs", "1"),
    **{f"ranks export {s}": printing("ranks", "export", "RUN", "--split", s, "--jobs", "1") for s in ("valid", "test")},
    "ranks reduce": printing("ranks", "reduce", "RUN", "-o", "OUT.npz", "--jobs", "1"),
    "ranks add": changing(f"{JOINED}/ranks", "ranks", "add", f"RUN/{JOINED}", *AGAIN),
    "rank": changing("ranks", "rank", "RUN", "--device", "cpu", "--force"),
    "search": printing("search", "RUN", "--method", "mean", "--name", "new", "--jobs", "1"),
    "search on a cluster": searching_again,
    "report": printing("report", "RUN", "-o", "OUT"),
    "upgrade": printing("upgrade", "RUN"),
    "train": changing("models/begun", "train", "--run", "RUN", *BEGUN),
    "run": running,
}
"""The commands that read a run, by name."""


def _methods(graph: Path) -> Path:
    """Return the configuration file of a run, which names its methods."""
    return graph.with_name("methods.toml")


def _calling(function: Callable[[], Any]) -> Answer:
    """Call a Python function; an error of relens is what the command line ends with."""
    from relens.errors import RelensError

    try:
        return Answer(0, function(), "")
    except RelensError as error:
        return Answer(2, None, str(error))
    except BaseException:
        return Answer(None, None, traceback.format_exc())


class Inline:
    """A cluster of this process."""

    n_workers = 1

    def share(self, value: Any) -> Any:
        """Return the value itself."""
        return value

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function once."""
        return [function(*arguments)]

    def submit(self, function: Callable[..., Any], shared: Any, task: Any) -> Any:
        """Return a task that runs when its result is asked for."""
        return partial(function, shared, task)

    def wait(self, handles: Sequence[Any], seconds: float) -> Any:
        """Return the first task."""
        del seconds
        return handles[0]

    def result(self, handle: Any) -> Any:
        """Run the task."""
        return handle()

    def suspect(self, handles: Sequence[Any]) -> bool:
        """Say that there are no other workers."""
        del handles
        return False

    def drop(self, handle: Any) -> None:
        """Forget a task."""


def _search_remotely(run: Path, *, parts: int | None = None) -> Any:
    """Search weights on a cluster; end after some ``parts`` as if killed."""
    import relens as library
    from relens.clusters.remote import Remote
    from relens.ensemble.distributed import SearchJournal

    class Mortal(Inline):
        results = 0

        def result(self, handle: Any) -> Any:
            if self.results == parts:
                raise KeyboardInterrupt
            self.results += 1
            return super().result(handle)

    opened = library.open_run(run)
    remote = Remote(Mortal(), SearchJournal(run / "search.jsonl"))
    weights = library.search(opened.ranks("valid"), method="dsc", regularise="none", input="rank", remote=remote)
    return weights.to_json()


def _plain(text: str, run: Path, folder: Path) -> list[str]:
    """Return the lines that a command printed, without the places of its files and the time it took."""
    text = text.replace(str(run), "RUN").replace(str(folder), "OUT")
    return [line.partition("; ")[0] for line in text.splitlines()]


def make(graph: Path, run: Path) -> None:
    """Make the run: complete with a report, evaluations, members of others, and three interrupted works."""
    import torch

    import relens as library
    from relens.pipeline.training import train_in_run
    from relens.training.loop import TrainingObserver
    from relens.training.presets import resolve_settings

    torch.set_num_threads(1)
    _methods(graph).write_text(f"methods = {json.dumps(METHODS)}\n")
    answer = relens("run", graph, "--run", run, "--config", _methods(graph), *PLAN)
    assert answer.code == 0, answer.said
    joined = run / JOINED
    for words in (
        ("evaluate", run, "--weights", "dsc", "--jobs", "1"),
        ("evaluate", run, "--model", "transe", "--jobs", "1"),
        ("ranks", "add", joined, "--dataset", graph, *MEMBER),
        ("search", joined, "--method", "mean", "--jobs", "1"),
        ("calibrate", joined, "--trust", "--device", "cpu"),
    ):
        answer = relens(*words)
        assert answer.code == 0, answer.said
    ensemble = library.Ensemble.open(run, "dsc", "cpu")
    next(ensemble.discover(candidates="all", depth=4, each=True, parts=run / f"{FOUND}.parts"))
    with suppress(KeyboardInterrupt):
        _search_remotely(run, parts=1)
    dataset = library.load_dataset(graph)
    settings = resolve_settings(dataset.name, "transe", "demo", [*CHANGES, "seed=7"])
    seen: list[int] = []
    observer = TrainingObserver(record=lambda record: seen.append(record.step), stop=lambda: len(seen) > 0)
    with suppress(KeyboardInterrupt):
        train_in_run(library.open_run(run), dataset, settings, name="begun", observer=observer)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
