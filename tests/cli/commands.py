"""Running the command line: in this process for speed, or in one of its own."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any
from unittest.mock import patch

from relens.cli import main
from tests.patience import HANG


@dataclass(frozen=True)
class Outcome:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The printed value, which must be JSON and nothing else."""
        return json.loads(self.out)


def relens(*arguments: object, columns: int = 120) -> Outcome:
    """Run ``relens ARGUMENTS`` in this process, exit code and all."""
    out, err = StringIO(), StringIO()
    argv = ["relens", *map(str, arguments)]
    code: object = None
    environment = patch.dict(os.environ, {"COLUMNS": str(columns)})
    with environment, patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int), f"main ended without an exit code: {code!r}"
    return Outcome(code, out.getvalue(), err.getvalue())


def succeed(*arguments: object, columns: int = 120) -> Outcome:
    """Run a command that must succeed."""
    outcome = relens(*arguments, columns=columns)
    assert outcome.code == 0, outcome.err
    return outcome


def fail(code: int, message: str, *arguments: object) -> Outcome:
    """Run a command that must fail with a message on stderr and nothing on stdout."""
    outcome = relens(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert message in " ".join(outcome.err.split()), outcome.err
    assert "Traceback" not in outcome.err
    return outcome


def relens_process(*arguments: object, **environment: str) -> Outcome:
    """Run ``relens ARGUMENTS`` in a process of its own."""
    command = [sys.executable, "-m", "relens", *map(str, arguments)]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False, env=env)
    return Outcome(done.returncode, done.stdout, done.stderr)
