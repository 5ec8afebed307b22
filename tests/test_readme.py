"""The README's Python runs, and its commands exist."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import relens.cli
from tests.cli.commands import succeed

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run that the pages speak of, ``runs/patterns``, of two models that took a second."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    folder = tmp_path_factory.mktemp("pages")
    changes = ("steps=4", "validate_every=2", "dim=16", "batch=64")
    options = [word for change in changes for word in ("--set", change)]
    options += ["--models", "transe,complex", "--device", "cpu", "--jobs", "1", "--no-report"]
    succeed("run", "patterns", "--run", folder / "runs" / "patterns", *options)
    return folder


def run_examples(page: Path) -> list[dict[str, Any]]:
    """Run the Python of a page, and return the names that each block leaves."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    left: list[dict[str, Any]] = [{} for _ in blocks]
    for code, names in zip(blocks, left, strict=True):
        exec(compile(code, page.name, "exec"), names)
    return left


def test_the_python_of_the_readme_runs(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(finished)
    (names,) = run_examples(ROOT / "README.md")
    question, *answers, votes, result = capsys.readouterr().out.splitlines()
    assert question == "(site_11_20, northeast_neighbour, ?)"
    assert answers == [f"{answer.rank:g} {answer.entity} {answer.known}" for answer in names["found"]]
    assert sorted(answer.known or "new" for answer in names["found"]) == ["new", "new", "new", "test"]
    assert sum(vote["weight"] for vote in json.loads(votes.replace("'", '"'))) == pytest.approx(1)
    assert re.fullmatch(r"MRR 0\.\d{4} in 0\.\d{4}–0\.\d{4}, [+-]0\.\d{4} over complex", result)


def test_the_python_about_predictions_runs(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished)
    (names,) = run_examples(ROOT / "docs/predict.md")
    assert names["found"].question == "(?, kind_of, kind_10)"
    assert sum(answer.known is None for answer in names["found"]) == 3
    assert 1 <= names["rank"] <= len(names["ensemble"].dataset.entities)


def test_the_python_about_the_service_runs(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", reason="needs fastapi: pip install 'relens[serve]'")
    monkeypatch.chdir(finished)
    (names,) = run_examples(ROOT / "docs/serve.md")
    assert names["app"].summary == "The ensemble of the run patterns"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_commands_exist(page: Path) -> None:
    for command in re.findall(r"^\$ relens (.*?)(?:\s+#.*)?$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        verb, *rest = shlex.split(command)
        found = relens.cli.cli.get_command(None, verb)  # type: ignore[arg-type]
        assert found is not None, verb
        if hasattr(found, "commands"):
            found = found.commands[rest.pop(0)]
        options = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in rest if word.startswith("--")} <= options, command


def test_the_plan_of_the_quick_start_is_one(tmp_path: Path) -> None:
    from relens.pipeline.plan import read_plan

    (text,) = re.findall(
        r"```toml\n(.*?)```", (ROOT / "docs/quick-start.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    (tmp_path / "plan.toml").write_text(text)
    plan = read_plan(tmp_path / "plan.toml")
    assert plan.models == ("complex", "rotate", "rotate-2")
    assert plan.model_changes == {"rotate-2": ("model=rotate", "seed=2")}


def test_the_quick_start_runs(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, as they stand."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")
    monkeypatch.chdir(finished)
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ relens (.*?)(?:\s+#.*)?$", page, flags=re.MULTILINE)
    commands = [line for line in lines if "runs/patterns" in line]
    assert [command.split()[0] for command in commands] == ["predict", "serve", "weights", "report"]
    for command in commands:
        if not command.startswith("serve"):  # which does not end; its own tests start it
            assert succeed(*shlex.split(command)).out
    assert (finished / "runs/patterns/report/index.html").is_file()


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_linked_files_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


@pytest.mark.parametrize(
    ("file", "best", "column"),
    [
        ("reproduction/wn18rr/six.json", "house", 1),
        ("reproduction/fb15k-237/six.json", "complex", 3),
        ("reproduction/nell-995/six.json", "complex", 5),
    ],
)
def test_the_first_table_is_that_of_the_committed_results(file: str, best: str, column: int) -> None:
    result = json.loads((ROOT / "docs/results" / file).read_text())
    rows = [line.split("|") for line in README.splitlines() if line.startswith("|") and line.count("|") == 8][2:9]
    methods = ["mean", "stacking", "simple:input=rank", "dsc:input=rank,regularise=none", "simple", "dsc"]
    metrics = [result["models"][best]["test"], *(result["methods"][method]["test"] for method in methods)]
    shown = [row[column + 1].strip(" *") for row in rows]
    assert shown == [f"{metric['mrr']:.4f}".removeprefix("0") for metric in metrics]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("reproduction/fb15k-237/members.json", "With two more seeds as members FB15k-237 reaches {};"),
        ("leaderboard/full.json", "models of ogbl-biokg's leaderboard, trained on it, reach {}\n"),
    ],
)
def test_the_figures_with_other_members_are_those_of_the_committed_results(file: str, text: str) -> None:
    mrr = json.loads((ROOT / "docs/results" / file).read_text())["methods"]["dsc"]["test"]["mrr"]
    assert text.format(f"{mrr:.4f}".removeprefix("0")) in README


def test_the_tables_of_benchmarks_are_those_of_the_committed_results() -> None:
    names = ("search-fb15k-237", "search-wn18rr", "pack", "scale-wikikg2", "models-fb15k-237", "ogb-reading")
    command = [sys.executable, ROOT / "benchmarks/tables.py", *(ROOT / f"docs/results/{name}.json" for name in names)]
    parts = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().split("\n\n")
    pages = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("benchmarks.md", "scale.md", "ogb.md")]
    assert [part for part in parts if not any(part in page for page in pages)] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "scale-wikikg2",
            "packing grows like n^{pack:.2f}, the search like n^{search:.2f}, the evaluation like n^{evaluation:.2f}, "
            "memory like n^{peak memory:.2f}, the packed ranks like n^{store bytes:.2f}.",
        ),
        (
            "models-fb15k-237",
            "packing grows like N^{packing:.2f}, the search like N^{search:.2f}, the packed ranks like "
            "N^{store bytes:.2f}, memory like N^{peak memory:.2f}: each model adds its ranks, and few candidates that "
            "no other contests (N^{contested candidates:.2f}).",
        ),
    ],
)
def test_costs_grow_as_the_page_about_scale_says(name: str, text: str) -> None:
    growth = json.loads((ROOT / f"docs/results/{name}.json").read_text())["growth"]
    page = " ".join((ROOT / "docs/scale.md").read_text(encoding="utf-8").split())
    assert text.format_map(growth) in page


@pytest.mark.parametrize("name", ["training-h200", "training-cpu"])
@pytest.mark.parametrize(("part", "unit"), [("training", "examples/s"), ("ranking", "queries/s")])
def test_the_rates_of_training_are_those_of_the_committed_results(name: str, part: str, unit: str) -> None:
    page = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    found = json.loads((ROOT / f"docs/results/{name}.json").read_text())[part]
    for title in ("TransE", "RotatE"):
        rows, ratios = found[title.lower()]["rows"], found[title.lower()]["ratios"]
        theirs, *ours = (f"{row['median']:,.0f}" for row in rows.values())
        beside = (f"{rate} ({ratio:.1f}×)" for rate, ratio in zip(ours, ratios.values(), strict=True))
        assert " | ".join([f"| {title}, {part}, {unit}", theirs, *beside]) in page


def test_the_headline_figures_are_those_of_the_committed_results() -> None:
    result = json.loads((Path(__file__).parent.parent / "docs/results/search-fb15k-237.json").read_text())
    reached = {target["name"]: target["value"] for target in result["targets"]}
    assert f"{reached['seconds of a search']:.2f} s" in README
    assert f"{reached['times faster than relens tpe']:.0f} times" in README
    authors = reached["times faster than the authors' procedure"]
    assert f"{authors:,.0f} times" in README
