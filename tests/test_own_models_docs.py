"""Snippets and examples in the documents run as they stand, and the page of commands is current."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import HANG

ROOT = Path(__file__).parent.parent
BRING = ROOT / "docs" / "bring-your-own-models.md"


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def execute(path: Path) -> dict:
    """Run the Python of a document in a module of its own."""
    namespace = {"__name__": f"docs.{path.stem}"}
    for code in blocks(path, "python"):
        exec(compile(code, str(path), "exec"), namespace)
    return namespace


def test_the_page_of_commands_is_current():
    """In a separate process, because click caches the help option of a command."""
    check = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate_commands.py", "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr


def test_a_scorer_is_packed_as_the_document_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    execute(BRING)
    assert "2200 queries packed\n" in capsys.readouterr().out
    assert (tmp_path / "runs" / "frequency" / "ranks" / "valid").is_dir()


@pytest.mark.parametrize(("name", "needs"), [("own_model", "torch"), ("pykeen_models", "pykeen")])
def test_the_examples_run(name, needs, tmp_path):
    pytest.importorskip(needs, reason=f"the example needs {needs}")
    command = [sys.executable, ROOT / "examples" / f"{name}.py", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = dict(re.findall(r"^ (\S+) +(?:model|ensemble) +(0\.\d{4})", done.stdout, flags=re.MULTILINE))
    models = ("frequency", "complex") if name == "own_model" else ("transe", "complex")
    assert rows.keys() == {*models, "mean", "simple", "dsc"}
    best = max(float(rows[model]) for model in models)
    assert float(rows["dsc"]) > best
    assert (tmp_path / "run" / "weights" / "dsc.json").is_file()
