"""The README's Python runs, and its commands exist."""

import json
import re
import shlex
from pathlib import Path

import pytest

import relens.cli
from tests.cli.commands import succeed

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    first, *weights = capsys.readouterr().out.splitlines()
    assert re.match(r"0\.\d{4} in Interval\(low=0\.\d+, high=0\.\d+\), [+-]0\.\d{4} over translation", first)
    assert len(weights) == 2


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_commands_exist(page: Path) -> None:
    for command in re.findall(r"^\$ relens (.*?)(?:\s+#.*)?$", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        verb, *rest = shlex.split(command)
        found = relens.cli.cli.get_command(None, verb)  # type: ignore[arg-type]
        assert found is not None, verb
        if hasattr(found, "commands"):
            found = found.commands[rest.pop(0)]
        options = {name for parameter in found.params for name in parameter.opts}
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


def test_the_quick_start_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands, as they stand, on a run that takes a second: only the questions are other ones."""
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")
    monkeypatch.chdir(tmp_path)
    changes = ("steps=4", "validate_every=2", "dim=16", "batch=64")
    options = [word for change in changes for word in ("--set", change)]
    succeed("run", "patterns", "--models", "transe,complex", "--device", "cpu", "--no-report", *options)
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ relens (.*?)(?:\s+#.*)?$", page, flags=re.MULTILINE)
    commands = [line for line in lines if "runs/patterns" in line]
    assert [command.split()[0] for command in commands] == ["predict", "serve", "weights", "report"]
    for command in commands:
        if not command.startswith("serve"):  # which does not end; its own tests start it
            assert succeed(*shlex.split(command)).out
    assert (tmp_path / "runs/patterns/report/index.html").is_file()


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_linked_files_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_the_headline_figures_are_those_of_the_committed_results() -> None:
    result = json.loads((Path(__file__).parent.parent / "docs/results/search-fb15k-237.json").read_text())
    reached = {target["name"]: target["value"] for target in result["targets"]}
    assert f"{reached['seconds of a search']:.2f} s" in README
    assert f"{reached['times faster than relens tpe']:.0f} times" in README
    authors = reached["times faster than the authors' procedure"]
    assert f"{authors:,.0f} times" in README
