"""What docs/ogb.md shows runs as it stands."""

import re
import shlex

import pytest

from relens.cli import cli
from tests.test_own_models_docs import ROOT, blocks, execute

OGB = ROOT / "docs" / "ogb.md"


def test_the_python_of_the_document_runs(capsys):
    namespace = execute(OGB)
    assert capsys.readouterr().out == "(2200, 20) sampled by relens: 20 per query, seed 0\n"
    assert namespace["drawn"]["valid"].short().tolist() == []


@pytest.mark.parametrize("command", re.findall(r"^\$ .*?relens (.*)$", "\n".join(blocks(OGB, "console")), re.MULTILINE))
def test_the_commands_of_the_document_exist(command):
    verb, *rest = shlex.split(command.partition("#")[0])
    found = cli.get_command(None, verb)
    if hasattr(found, "commands"):
        found = found.commands[rest.pop(0)]
    assert {word for word in rest if word.startswith("--")} <= {o for p in found.params for o in p.opts}


def test_linked_files_exist():
    targets = re.findall(r"\]\(([^)#]+)\)", OGB.read_text(encoding="utf-8"))
    assert targets
    assert all((OGB.parent / target).exists() for target in targets)
