"""The Python and the commands in the pages work as they stand, and the files and functions they name exist."""

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

import relens.cli
from tests.cli.commands import succeed

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDE = ROOT / "CONTRIBUTING.md"
COMMAND = r"^\$ (?:\w+=\S+ )?relens (.*?)(?:\s+#.*)?$"
"""A console line; the group holds the words of the command, without environment variables and comments."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run ``runs/patterns`` of the pages, with two models trained for a second."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    folder = tmp_path_factory.mktemp("pages")
    changes = ("steps=4", "validate_every=2", "dim=16", "batch=64")
    options = [word for change in changes for word in ("--set", change)]
    options += ["--models", "transe,complex", "--device", "cpu", "--jobs", "1", "--no-report"]
    succeed("run", "patterns", "--run", folder / "runs" / "patterns", *options)
    return folder


def run_examples(page: Path) -> dict[str, Any]:
    """Run the Python blocks of a page in order, and return the names that they define."""
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(code, page.name, "exec"), names)
    return names


def test_the_python_of_the_readme_runs(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(finished)
    names = run_examples(ROOT / "README.md")
    found, result, printed = names["found"], names["result"], capsys.readouterr().out
    assert found.question == "(site_11_20, northeast_neighbour, ?)"
    assert sorted(answer.known or "new" for answer in found) == ["new", "new", "new", "test"]
    assert sum(vote["weight"] for vote in found.to_records()[0]["votes"]) == pytest.approx(1)
    assert result.paired.reference == "complex"
    assert all(shown in printed for shown in (found.question, f"{result.overall.mrr:.4f}", str(result.interval)))


def test_the_python_about_new_facts_runs(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(finished)
    fact = run_examples(ROOT / "docs/discover.md")["fact"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[-1].startswith(f"{fact.head} northeast_neighbour {fact.tail} ")


def test_the_python_about_predictions_runs(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(finished)
    names = run_examples(ROOT / "docs/predict.md")
    assert names["found"].question == "(?, kind_of, kind_10)"
    assert sum(answer.known is None for answer in names["found"]) == 3
    assert 1 <= names["rank"] <= len(names["ensemble"].dataset.entities)


def test_the_python_about_the_service_runs(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", reason="needs fastapi: pip install 'relens[serve]'")
    monkeypatch.chdir(finished)
    names = run_examples(ROOT / "docs/serve.md")
    assert names["app"].summary == "The ensemble of the run patterns"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_commands_exist(page: Path) -> None:
    for command in re.findall(COMMAND, page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        verb, *rest = shlex.split(command)
        found = relens.cli.cli.get_command(None, verb)  # type: ignore[arg-type]
        assert found is not None, verb
        if hasattr(found, "commands"):
            found = found.commands[rest.pop(0)]
        parameters = found.get_params(click.Context(found))
        options = {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in rest if word.startswith("--")} <= options, command


def test_the_plan_of_the_quick_start_is_one(tmp_path: Path) -> None:
    from relens.pipeline.plan import read_plan

    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    text, *_ = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "plan.toml").write_text(text)
    plan = read_plan(tmp_path / "plan.toml")
    assert plan.models == ("complex", "rotate", "rotate-2")
    assert plan.model_changes == {"rotate-2": ("model=rotate", "seed=2")}


def test_the_quick_start_runs(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")
    monkeypatch.chdir(finished)
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    lines = re.findall(COMMAND, page, flags=re.MULTILINE)
    commands = [line.replace("runs/two", "runs/patterns") for line in lines if "runs/patterns" in line]
    assert {"predict", "report", "compare"} <= {command.split()[0] for command in commands}
    for command in commands:
        if not command.startswith("serve"):  # it does not end; its own tests cover it
            assert succeed(*shlex.split(command)).out
    assert (finished / "runs/patterns/report/index.html").is_file()


@pytest.mark.parametrize("page", [*PAGES, GUIDE, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_the_linked_files_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_files_named_in_the_guide_exist() -> None:
    named = re.findall(r"`((?:src|tests|docs|benchmarks)/[^`]*)`", GUIDE.read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "name", re.findall(r"^\| \d+ \| `([\w.]+)`", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
)
def test_the_functions_named_in_the_guide_exist(name: str) -> None:
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    parts = ["relens", *name.split(".")]
    modules = [n for n in range(len(parts), 1, -1) if (ROOT / "src" / Path(*parts[:n])).with_suffix(".py").is_file()]
    found: Any = import_module(".".join(parts[: modules[0]]))
    for attribute in parts[modules[0] :]:
        found = getattr(found, attribute)
    assert callable(found)
