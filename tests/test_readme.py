"""The README's Python runs, and its commands exist."""

import json
import re
import shlex
from pathlib import Path

import pytest

import relens.cli

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    first, *weights = capsys.readouterr().out.splitlines()
    assert re.match(r"0\.\d{4} in Interval\(low=0\.\d+, high=0\.\d+\), [+-]0\.\d{4} over translation", first)
    assert len(weights) == 2


def test_the_commands_exist() -> None:
    commands = re.findall(r"^\$ relens (.*?)(?:\s+#.*)?$", README, flags=re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        verb, *rest = shlex.split(command)
        found = relens.cli.cli.get_command(None, verb)  # type: ignore[arg-type]
        assert found is not None, verb
        if hasattr(found, "commands"):
            found = found.commands[rest.pop(0)]
        options = {name for parameter in found.params for name in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= options, command


def test_the_linked_files_exist() -> None:
    root = Path(__file__).parent.parent
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (root / target).exists(), target


def test_the_headline_figures_are_those_of_the_committed_results() -> None:
    result = json.loads((Path(__file__).parent.parent / "docs/results/search-fb15k-237.json").read_text())
    reached = {target["name"]: target["value"] for target in result["targets"]}
    assert f"{reached['seconds of a search']:.2f} s" in README
    assert f"{reached['times faster than relens tpe']:.0f} times" in README
    authors = reached["times faster than the authors' procedure"]
    assert f"{authors:,.0f} times" in README
