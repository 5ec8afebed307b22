"""Commands that write into a run hold it and are refused while somebody else does; those that read are free."""

import pytest

from relens.runs import Run
from tests.cli.commands import fail, relens_process, succeed

pytest.importorskip("fcntl", reason="this system has no such locks")


@pytest.fixture
def searched(run_path):
    succeed("search", run_path, "--input", "rank", "--regularise", "none", "--jobs", 1)
    return run_path


def contents(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("command", ["search", "evaluate", "report", "rank", "weights import", "ranks expand"])
def test_writers_are_refused_and_nothing_changes(searched, tmp_path, command):
    weights, ranks = tmp_path / "w.csv", tmp_path / "ranks.npz"
    succeed("weights", "export", searched, "-o", weights)
    succeed("ranks", "reduce", searched, "-o", ranks)
    if command == "rank":
        pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    arguments = {
        "weights import": ("weights", "import", searched, weights, "--name", "mine"),
        "ranks expand": ("ranks", "expand", ranks, "--run", searched, "--force"),
    }.get(command, (command, searched))
    with Run.open(searched).held():
        before = contents(searched)
        fail(2, f"{searched} is in use by another relens (process ", *arguments)
        assert contents(searched) == before
    if command != "rank":  # there are no models
        succeed(*arguments)


def test_another_process_is_refused_too(searched):
    with Run.open(searched).held():
        ended = relens_process("evaluate", searched)
    assert (ended.code, ended.out) == (2, "")
    assert "is in use by another relens" in ended.err


def test_the_run_is_let_go_however_the_command_ends(searched):
    fail(2, "has no weights 'none'", "evaluate", searched, "--weights", "none")
    with Run.open(searched).held():
        pass
    succeed("evaluate", searched)
    with Run.open(searched).held():
        pass


@pytest.mark.parametrize(
    "command", ["compare RUN mean", "weights show RUN", "weights export RUN -o OUT.csv", "ranks show RUN",
                "ranks export RUN", "ranks reduce RUN -o OUT.npz"],
)  # fmt: skip
def test_readers_are_free(searched, tmp_path, command):
    words = [word.replace("RUN", str(searched)).replace("OUT", str(tmp_path / "out")) for word in command.split()]
    with Run.open(searched).held():
        before = contents(searched)
        succeed(*words)
        assert contents(searched) == before
