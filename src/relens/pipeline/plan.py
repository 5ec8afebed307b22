"""The plan of a run: data set, models and their settings, methods and seed, from arguments or a TOML file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from relens.comparison import DEFAULT_SPECS
from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.stored import is_graph
from relens.errors import DatasetError, InputError, nearest
from relens.progress import SILENT, Progress
from relens.runs import GRAPH, RECORD, Run
from relens.toml import parse_toml

DATASET = "patterns"
"""The data set of a new run if none is named."""


@dataclass(frozen=True)
class Plan:
    """The request for a run.

    Attributes:
        dataset: a name, or a folder of TSV files; None for the graph of the run, see ``load_graph``.
        models: names in the run; None for the members of the preset. A name that is neither a model's nor a member's
            needs a change ``model=…`` that says which model it is.
        preset: settings to start from; None for ``demo`` on the CPU and ``best`` on a GPU.
        changes: ``key=value`` texts for all models that have such a setting.
        model_changes: ``key=value`` texts by the name of the model.
        methods: the methods to compare, see ``relens.comparison.compare``.
        seed: the root of all randomness.
        seeds: how many members each model is trained as, with as many seeds; None for one, or for those that a budget
            has time for.
        budget: a time, such as ``15m``, that sizes and steps are chosen for; None for those of the preset.
    """

    dataset: str | None = None
    models: tuple[str, ...] | None = None
    preset: str | None = None
    changes: tuple[str, ...] = ()
    model_changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    methods: tuple[str, ...] = DEFAULT_SPECS
    seed: int = 0
    seeds: int | None = None
    budget: str | None = None

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise InputError(f"`seeds={self.seeds}`: expected at least 1")

    def with_changes(self, texts: Iterable[str]) -> "Plan":
        """Return a plan with changed settings: ``key=value`` for all models, ``model.key=value`` for one."""
        changes, by_model = list(self.changes), {name: list(own) for name, own in self.model_changes.items()}
        for text in texts:
            key, equals, _ = text.partition("=")
            model, dot, _ = key.partition(".")
            if not (equals and key.strip()):
                raise InputError(f"{text!r} changes no setting: expected key=value or model.key=value")
            if not dot:
                changes.append(text)
            else:
                by_model.setdefault(model, []).append(text.removeprefix(f"{model}."))
        return replace(self, changes=tuple(changes), model_changes={name: tuple(own) for name, own in by_model.items()})

    @property
    def all_changes(self) -> tuple[str, ...]:
        """All changes as ``with_changes`` takes them."""
        own = (f"{model}.{text}" for model, texts in self.model_changes.items() for text in texts)
        return (*self.changes, *own)


def load_graph(
    dataset: Path | str | None, run: Path | None, *, offline: bool = False, progress: Progress = SILENT
) -> Dataset:
    """Load the data set of a plan.

    Args:
        dataset: a name or a folder; None for the graph of the run, or ``DATASET`` if there is no such run yet.
        run: the folder of the run; None if it is not known yet.
        offline: never download the data set.
        progress: receives progress and notes.
    """
    if dataset is None and run is not None and (run / RECORD).is_file():
        return Run.open(run).graph()
    try:
        return load_dataset(dataset or DATASET, offline=offline, progress=progress)
    except DatasetError as error:
        if run is None or not is_graph(run / GRAPH):
            raise
        raise DatasetError(f"{error}. Or leave the data set out: {run} holds its graph") from error


def read_plan(path: Path) -> Plan:
    """Read a plan from a TOML file: keys of ``Plan``, ``set`` for changes, and a table of changes for each model.

    For instance::

        dataset = "wn18rr"
        models = ["transe", "rotate"]
        preset = "best"
        set = { batch = 512 }
        [rotate]
        dim = 500
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from error
    values = parse_toml(text, str(path))
    plan = Plan()
    tables = {key: values.pop(key) for key in list(values) if isinstance(values[key], dict) and key != "set"}
    for key, kind in _KINDS.items():
        if key in values:
            plan = replace(plan, **{key: _typed(path, key, values.pop(key), kind)})
    changes = _texts(_typed(path, "set", values.pop("set", {}), dict))
    if plan.models is not None and not 0 < len(set(plan.models)) == len(plan.models):
        raise InputError(f"{path}: models are {list(plan.models)}, expected one or more different names")
    if values:
        key = next(iter(values))
        raise InputError(f"{path}: unknown key {key!r}; {nearest(key, _KEYS)}")
    plan = plan.with_changes(changes)
    return plan.with_changes(f"{model}.{text}" for model, table in tables.items() for text in _texts(table))


_KINDS: dict[str, type] = {
    "dataset": str,
    "models": list,
    "preset": str,
    "methods": list,
    "seed": int,
    "seeds": int,
    "budget": str,
}
_KEYS = (*_KINDS, "set")


def _typed(path: Path, key: str, value: Any, kind: type) -> Any:
    """Return a value as a plan holds it; a value of another type raises an error."""
    if kind is list and isinstance(value, list) and all(type(entry) is str for entry in value):
        return tuple(value)
    if kind is list or type(value) is not kind:
        expected = {str: "a text", list: "a list of texts", int: "a whole number", dict: "a table"}[kind]
        raise InputError(f"{path}: {key} is {value!r}, expected {expected}")
    return value


def _texts(table: Mapping[str, Any]) -> list[str]:
    """Return a TOML table as ``key=value`` texts."""
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in table.items()]
