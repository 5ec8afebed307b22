"""Results go to stdout, messages and progress to stderr; bars only where someone looks at them."""

import os
import pickle
import pty
import subprocess
import sys
import threading
from types import SimpleNamespace

import click
import numpy as np
import pytest

import relens.cli as command_line
from relens.cli import console
from relens.cli.console import TerminalProgress, complain, emit, emit_json, note
from relens.errors import InputError, RelensError, WeightsError
from relens.files import VERIFY
from relens.packs.store import save_pack
from relens.runs import Run
from tests.cli.commands import relens, relens_process
from tests.patience import HANG
from tests.random_packs import scored


def test_results_and_messages_go_their_ways(capsys):
    emit("a result")
    emit_json({"ü": [1.5, None]})
    note("a remark")
    complain("a mistake")
    out, err = capsys.readouterr()
    assert out == 'a result\n{\n "ü": [\n  1.5,\n  null\n ]\n}\n'
    assert err == "relens: a remark\nrelens: error: a mistake\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is full")
def test_work_goes_on_where_messages_cannot_be_shown():
    code = "from relens.cli.console import emit, note; note('lost'); note('lost, too'); emit('done')"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True, timeout=HANG, check=False
        )
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_json_never_holds_nan():
    with pytest.raises(ValueError, match="Out of range float values"):
        emit_json({"x": float("inf")})


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


def test_where_stderr_is_a_file_a_plain_line_comes_now_and_then(capsys, clock):
    with TerminalProgress().task("packing", 2000) as advance:
        clock.now += 9
        advance(1000)
        assert capsys.readouterr() == ("", "")
        clock.now += 3
        advance(500)
        assert capsys.readouterr() == ("", "relens: packing: 1,500 of 2,000, about 4 s left\n")
        clock.now += 9
        advance(100)
        assert capsys.readouterr() == ("", "")
        clock.now += 11
        advance(400)
        assert capsys.readouterr() == ("", "relens: packing: 2,000 of 2,000, about 0 s left\n")


def test_a_task_that_does_not_advance_divides_nothing_by_zero(capsys, clock):
    with TerminalProgress().task("waiting", 0) as advance:
        clock.now += 20
        advance(0)
    assert capsys.readouterr() == ("", "")


def test_an_error_inside_a_task_passes_through(capsys):
    with pytest.raises(WeightsError, match="inside"), TerminalProgress().task("x", 1):
        raise WeightsError("inside")
    assert capsys.readouterr() == ("", "")


WORK = """
import sys, time
from relens.cli.console import TerminalProgress, emit
for total in {totals}:
    with TerminalProgress().task("packing [tail]", total) as advance:
        for _ in range(total):
            time.sleep({step})
            advance(1)
        time.sleep({rest})
emit("done")
"""


def on_a_terminal(script: str, **environment: str) -> tuple[str, str]:
    """Run a script whose stderr is a terminal; return what it wrote to stdout and to the terminal."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=slave, env=env)
    os.close(slave)
    seen: list[bytes] = []

    def read() -> None:
        while True:
            try:
                chunk = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            seen.append(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate(timeout=HANG)
    reader.join(timeout=HANG)
    os.close(master)
    assert process.returncode == 0, b"".join(seen)
    return out.decode(), b"".join(seen).decode()


def test_on_a_terminal_long_work_shows_a_bar_with_the_time_left():
    out, err = on_a_terminal(WORK.format(totals=[8], step=0.15, rest=0))
    assert out == "done\n"
    assert "packing [tail]" in err
    assert "━" in err
    assert "left" in err
    assert "/8" in err
    assert "0:00:0" in err


def test_on_a_terminal_short_work_shows_nothing():
    # A busy machine may take long for short work.
    script = f"from relens.cli import console; console.SHOW_AFTER_S = {HANG}\n"
    out, err = on_a_terminal(script + WORK.format(totals=[3, 3, 3], step=0.01, rest=0))
    assert (out, err) == ("done\n", "")


def test_the_bar_does_not_wait_for_the_first_advance():
    out, err = on_a_terminal(WORK.format(totals=[0], step=0, rest=1.0))
    assert out == "done\n"
    assert "packing [tail]" in err


def test_a_terminal_without_cursor_gets_no_bars():
    out, err = on_a_terminal(WORK.format(totals=[4], step=0.2, rest=0), TERM="dumb")
    assert (out, err) == ("done\n", "")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RelensError("the disk is full"), 1, "relens: error: the disk is full\n"),
        (OSError(5, "Input/output error", "/x"), 1, "relens: error: [Errno 5] Input/output error: '/x'\n"),
        (
            OSError(28, "No space left on device", "/x"),
            1,
            "relens: error: [Errno 28] No space left on device: '/x': free some space there, or set TMPDIR to another "
            "place, then run the same command again.\n",
        ),
        (MemoryError(), 1, "relens: error: MemoryError\n"),
        (InputError("line 3: found x"), 2, "relens: error: line 3: found x\n"),
        (WeightsError("no"), 2, "relens: error: no\n"),
        (click.UsageError("use it otherwise"), 2, "Error: use it otherwise\n"),
        (KeyboardInterrupt(), 130, "relens: error: interrupted; nothing half-written was left behind."),
        (click.Abort(), 130, "relens: error: interrupted;"),
    ],
)
def test_each_kind_of_error_has_its_exit_code(monkeypatch, error, code, message):
    def command() -> None:
        raise error

    failing = click.Command("fails", callback=command)
    module = SimpleNamespace(fails=failing)
    monkeypatch.setitem(command_line.VERBS, "fails", ("relens.fails", "fails", "Fails."))
    monkeypatch.setattr(command_line, "import_module", lambda name: module)
    outcome = relens("fails")
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err


def test_a_bug_is_not_hidden(monkeypatch):
    def command() -> None:
        raise AssertionError("a bug")

    module = SimpleNamespace(fails=click.Command("fails", callback=command))
    monkeypatch.setitem(command_line.VERBS, "fails", ("relens.fails", "fails", "Fails."))
    monkeypatch.setattr(command_line, "import_module", lambda name: module)
    with pytest.raises(AssertionError, match="a bug"):
        relens("fails")


def test_help_lists_every_verb_on_stdout():
    outcome = relens("--help")
    assert outcome.code == 0
    assert outcome.err == ""
    for verb, (_, _, text) in command_line.VERBS.items():
        assert f"  {verb} " in outcome.out
        assert text.split(";")[0] in outcome.out
    assert relens("-h").out == outcome.out


@pytest.mark.parametrize("verb", command_line.VERBS)
def test_every_verb_has_help(verb):
    outcome = relens(verb, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: relens {verb}")


def test_verification_can_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv(VERIFY, "1")  # restored after the test, whatever the command sets
    run = Run.create(tmp_path / "run", "toy")
    save_pack(scored(), run.ranks_path("valid"))
    damaged = run.ranks_path("valid") / "n_candidates.bin"
    (np.fromfile(damaged, dtype="<i4") + 1).tofile(damaged)
    refused = relens("ranks", "show", run.path)
    assert (refused.code, refused.out) == (2, "")
    assert "n_candidates.bin is damaged" in refused.err
    assert "Make these ranks again: repeat the `relens run` that made them" in " ".join(refused.err.split())
    assert relens("--no-verify", "ranks", "show", run.path).code == 0


def test_the_version_is_the_packages():
    assert relens("--version").out == "relens, version 0.1.0\n"


def test_no_verb_at_all_shows_the_help_and_is_wrong_use():
    outcome = relens()
    assert (outcome.code, outcome.out) == (2, "")
    assert "Usage: relens [OPTIONS] COMMAND [ARGS]..." in outcome.err


@pytest.mark.parametrize(
    ("verb", "hint"),
    [("evalute", "did you mean 'evaluate'?"), ("zzz", "available: 'run', 'report', 'predict', 'score'")],
)
def test_a_wrong_verb_is_answered_with_the_nearest(verb, hint):
    outcome = relens(verb)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"No such command '{verb}'; {hint}" in outcome.err


def test_a_process_of_its_own_ends_with_the_same_codes(tmp_path):
    assert relens_process("--version") == relens("--version")
    nothing = relens_process("search", tmp_path / "none")
    assert (nothing.code, nothing.out) == (2, "")
    assert nothing.err.startswith(f"relens: error: {tmp_path}/none is not a run: it does not exist.")


def test_an_interrupt_inside_generated_code_ends_with_the_usual_exit_code(tmp_path):
    """Python looks at its note of such an interrupt when ``python -m`` ends."""
    module = "import relens.cli as c\nc.cli.main = lambda **_: exec('raise KeyboardInterrupt')\nc.main()\n"
    (tmp_path / "interrupted.py").write_text(module)
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.split(";")[0]) == (130, "relens: error: interrupted")


def test_a_long_silence_is_broken_by_what_is_being_done(capsys, clock):
    progress = TerminalProgress()
    clock.now += 100
    progress.beat()
    assert capsys.readouterr() == ("", "")  # nothing is known to be done
    progress.note("searching weights")
    capsys.readouterr()
    clock.now += 9
    progress.beat()
    assert capsys.readouterr() == ("", "")
    clock.now += 1
    progress.beat()
    assert capsys.readouterr() == ("", "relens: searching weights: at work\n")
    clock.now += 9
    progress.beat()
    assert capsys.readouterr() == ("", "")
    with progress.task("a, steps", 100) as one, progress.task("b, steps", 10):
        clock.now += 5
        one(50)
        progress.beat()
        assert capsys.readouterr() == ("", "relens: a, steps: 50 of 100, about 5 s left; b, steps: 0 of 10\n")


def test_what_was_done_before_is_no_pace(capsys, clock):
    with TerminalProgress().task("a, steps", 100) as advance:
        advance(80)
        clock.now += 10
        advance(10)
    assert capsys.readouterr() == ("", "relens: a, steps: 90 of 100, about 10 s left\n")


def test_a_heart_beats_only_inside_its_context(capsys, monkeypatch):
    monkeypatch.setattr(console, "SILENCE_S", 0.0)
    monkeypatch.setattr(console, "BEAT_S", 0.01)
    seen = threading.Event()
    progress = TerminalProgress()
    monkeypatch.setattr(progress, "beat", seen.set)
    with progress.beating():
        assert seen.wait(HANG)
    seen.clear()
    assert not seen.wait(0.1)
    assert not any(thread.name == "heartbeat" for thread in threading.enumerate())


TWO_TASKS = """
import time
from relens.cli.console import TerminalProgress
progress = TerminalProgress()
with progress.task("first", 4) as one, progress.task("second", 4) as two:
    for _ in range(4):
        time.sleep(0.4)
        one(1), two(1)
"""


def test_on_a_terminal_tasks_at_the_same_time_have_a_bar_each():
    _, err = on_a_terminal(TWO_TASKS)
    assert "first" in err
    assert "second" in err


def test_a_worker_process_gets_a_display_of_its_own(capfd):
    progress = TerminalProgress()
    with progress.task("here", 2):
        copy = pickle.loads(pickle.dumps(progress))
    copy.note("from a worker")
    assert capfd.readouterr().err == "relens: from a worker\n"
