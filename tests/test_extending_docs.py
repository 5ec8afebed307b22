"""The package in docs/extending.md works: each of its objects loads through an entry point and does its job."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

import relens
from relens.registry import Registry
from tests import simulated
from tests.test_own_models_docs import ROOT, blocks

PAGE = ROOT / "docs" / "extending.md"
TABLES = {
    "models": "relens.models:MODELS",
    "methods": "relens.ensemble.methods:METHODS",
    "searchers": "relens.ensemble.searchers:SEARCHERS",
    "inputs": "relens.ensemble.inputs:INPUTS",
    "importers": "relens.importers.importer:IMPORTERS",
    "metrics": "relens.metrics:METRICS",
}
MOST_LINES = 20


def modules() -> dict[str, str]:
    """Return the code of the page by module; the first line of each block names its file."""
    found = {}
    for code in blocks(PAGE, "python"):
        path = re.fullmatch(r"# my_package/(\w+)\.py", code.splitlines()[0])
        assert path is not None, code.splitlines()[0]
        found[path[1]] = code
    return found


def announced() -> dict[str, dict[str, str]]:
    """Return the entry points of the page's pyproject.toml by table."""
    project, *_ = blocks(PAGE, "toml")
    groups = tomllib.loads(project)["project"]["entry-points"]
    return {group.removeprefix("relens."): points for group, points in groups.items()}


def table(name: str) -> Registry[Any]:
    module, _, attribute = TABLES[name].partition(":")
    if name == "models":
        pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    registry: Registry[Any] = getattr(import_module(module), attribute)
    return registry


def write_wheel(folder: Path) -> Path:
    """Write the page's package as a wheel, which pip installs without a build tool."""
    information = "my_package-0.1.dist-info"
    groups = {f"relens.{name}": points for name, points in announced().items()}
    lines = [line for group, points in groups.items() for line in (f"[{group}]", *map(" = ".join, points.items()), "")]
    files = {
        **{f"my_package/{name}.py": code for name, code in modules().items()},
        f"{information}/METADATA": "Metadata-Version: 2.1\nName: my-package\nVersion: 0.1\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{information}/entry_points.txt": "\n".join(lines),
    }
    files[f"{information}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{information}/RECORD"))
    wheel = folder / "my_package-0.1-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip has installed the page's package into."""
    folder = tmp_path_factory.mktemp("package")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--target",
        folder / "site",
    ]
    subprocess.run([*install, write_wheel(folder)], check=True)
    return folder / "site"


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The page's package on the path, and tables that do not know it yet."""
    monkeypatch.syspath_prepend(site)
    for name in TABLES:
        if name != "models" or find_spec("torch"):
            monkeypatch.setattr(table(name), "_entries", None)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "my_package"]:
        del sys.modules[name]


@pytest.fixture
def entries(installed: None) -> Any:
    """Return the entry that the page adds to a table."""

    def entry_of(name: str) -> Any:
        registry = table(name)
        (label,) = announced()[name]
        _, _, attribute = announced()[name][label].partition(":")
        module = import_module(announced()[name][label].partition(":")[0])
        entry = getattr(module, attribute)
        assert registry.find(entry.name) is entry
        return entry

    return entry_of


def test_each_table_has_one_short_example() -> None:
    assert announced().keys() == TABLES.keys()
    for name, code in modules().items():
        lines = [line for line in code.splitlines() if line.strip()]
        assert len(lines) <= MOST_LINES, name


@pytest.mark.parametrize("name", list(TABLES))
def test_the_entry_is_found_by_name(entries: Any, name: str) -> None:
    entry = entries(name)
    assert entry.description
    assert entry.order >= 100


def test_the_model_scores_as_its_formula_says(entries: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    model = entries("models").build(9, 3, {"dim": 5})
    model.initialise("norm", torch.Generator().manual_seed(0))
    anchor, relation = torch.tensor([0, 4, 8]), torch.tensor([0, 5, 2])
    scores = model.score(model.encode(anchor, relation))
    for row, (a, r) in enumerate(zip(anchor.tolist(), relation.tolist(), strict=True)):
        for e in range(9):
            expected = (model.entity[a] * model.relation[r % 3] * model.entity[e]).sum()
            torch.testing.assert_close(scores[row, e], expected)
    candidates = torch.tensor([[1, 2], [0, 8], [4, 4]])
    torch.testing.assert_close(model.score(model.encode(anchor, relation), candidates), scores.gather(1, candidates))


def test_the_model_trains(entries: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    entries("models")
    from relens.ranking.validation import mean_reciprocal_rank
    from relens.training.loop import new_model, optimise
    from relens.training.presets import resolve_settings

    preset = re.findall(r"```toml\n(  \[distmult.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[0]
    values = tomllib.loads(preset)["distmult"]["default"]
    overrides = [
        f"{key}={value!r}" if not isinstance(value, str) else f"{key}={value}" for key, value in values.items()
    ]
    assert resolve_settings("patterns", "distmult", "demo", overrides).options["dim"] == 64
    changes = ["dim=32", "shared_inverse=false", "lr=0.02", "steps=150", "validate_every=50"]
    settings = resolve_settings("patterns", "distmult", "demo", [*overrides, *changes])
    dataset = relens.load_dataset("patterns")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model = new_model(settings, dataset.train, len(dataset.entities), len(dataset.relations))
        valid = import_module("relens.ranking.competition").Competition.from_dataset(dataset, "valid")
        result = optimise(model, dataset.train, settings, validate=lambda m: mean_reciprocal_rank(m, valid))
    finally:
        torch.set_num_threads(threads)
    assert result.best_mrr > 0.15, "a guess is at .01"


def test_the_input_decreases(entries: Any) -> None:
    costs = entries("inputs").cost_table(50)
    assert (np.diff(costs.astype(np.int64)) > 0).all()


def test_the_metric_counts(entries: Any) -> None:
    assert entries("metrics").summarise(np.array([1.0, 5.0, 5.5, 9.0])) == 0.5


def test_the_method_averages_the_two_best_models(entries: Any) -> None:
    entries("methods")
    packed = simulated.packed("valid")
    weights = relens.search(packed, method="best-two", input="rank")
    from relens.ensemble.objective import model_mrrs

    best = np.argsort(model_mrrs(packed))[-2:]
    assert sorted(np.flatnonzero(weights.fallback)) == sorted(best)
    assert len(set(weights.fallback[best].tolist())) == 1


def test_the_searcher_finds_a_pair_of_models(entries: Any) -> None:
    entries("searchers")
    weights = relens.search(simulated.packed("valid"), method="simple", searcher="corners", input="rank", trials=40)
    assert 1 <= np.count_nonzero(weights.fallback) <= 3


def relens_with(site: Path, *words: object) -> str:
    """Run the command line in a process that has the package on its path, and return what it prints."""
    path = os.pathsep.join([str(site), str(Path(relens.__file__).parent.parent)])
    command = [sys.executable, "-m", "relens", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_searches_with_all_three(site: Path, run_path: Path) -> None:
    assert "best-two" in relens_with(site, "search", run_path, "--method", "best-two", "--input", "cube-root")
    printed = relens_with(site, "search", run_path, "--method", "simple", "--searcher", "corners", "--trials", 5)
    assert "searcher corners" in printed
    assert "Hit@5" in relens_with(site, "evaluate", run_path, "--weights", "best-two")


def test_the_command_line_trains_the_model(site: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    settings = ("loss=1vsall", "dim=8", "steps=4", "validate_every=2", "batch=64")
    changes = [word for setting in settings for word in ("--set", setting)]
    printed = relens_with(site, "train", "patterns", "--model", "distmult", "--run", tmp_path / "run", *changes)
    assert "validation MRR" in printed


def test_the_command_line_imports_with_the_importer(site: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for split in ("valid", "test"):
        for model in ("one", "two"):
            np.savetxt(tmp_path / f"{model}_{split}.csv", rng.normal(size=(3, 4)), delimiter=",")
        rows = [("0", "likes", "tail", "1"), ("2", "likes", "head", "3"), ("1", "knows", "tail", "0")]
        (tmp_path / f"{split}_queries.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    printed = relens_with(site, "ranks", "import", tmp_path, "--layout", "csv", "--run", tmp_path / "run")
    assert "one" in printed
    assert "csv" in relens_with(site, "ranks", "import", "--help")
