"""``relens serve``: a process that is started, asked and interrupted."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from relens.files import read_json
from relens.runs import MADE_BY
from tests.cli.commands import fail, succeed
from tests.patience import HANG

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install 'relens[serve]'")
httpx = pytest.importorskip("httpx")

SMALL = ("--preset", "demo", "--set", "dim=8", "--set", "steps=20", "--set", "validate_every=10", "--set", "batch=64")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of a ring of twelve entities, and their weights."""
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("graphs") / "ring"
    folder.mkdir()
    rows = [(f"e{i}", "next", f"e{(i + 1) % 12}") for i in range(12)]
    rows += [(f"e{i}", "twice", f"e{2 * i % 12}") for i in range(12)]
    for split, part in (("train", rows[4:]), ("valid", rows[:2]), ("test", rows[2:4])):
        (folder / f"{split}.txt").write_text("".join("\t".join(row) + "\n" for row in part))
    path = tmp_path_factory.mktemp("runs") / "ring"
    for model in ("transe", "complex"):
        succeed("train", folder, "--model", model, "--run", path, "--device", "cpu", *SMALL)
    succeed("rank", path, "--device", "cpu")
    for method in ("mean", "mrr-mean"):
        succeed("search", path, "--method", method, "--jobs", 1)
    return path


@contextmanager
def served(*arguments: object, **environment: str) -> "Iterator[tuple[subprocess.Popen[str], list[str]]]":
    """Start a service; yield it, and what it wrote until it was ready."""
    command = [sys.executable, "-m", "relens", "serve", *map(str, arguments)]
    env = {**os.environ, **environment}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stderr is not None
    try:
        lines: list[str] = []
        while not (lines and lines[-1].startswith("relens: serving at ")):
            lines.append(process.stderr.readline())
            assert lines[-1], f"it ended: {lines}"
        yield process, lines
    finally:
        process.kill()
        process.communicate()


def lacking(run):
    """Return what is noted about a run that is not calibrated."""
    return (
        f"relens: {run} keeps no thresholds of verdicts and no scale of relations for these weights: the first "
        f"requests that need them wait for the fit; `relens calibrate {run} --weights mean` does it once\n"
    )


def test_it_answers_like_the_library_until_it_is_interrupted(run):
    from relens.prediction import Ensemble

    with served(run, "--port", 0, "--weights", "mean") as (process, lines):
        address = lines[-1].split()[3]
        assert lines[:-1] == [f"relens: loading the models of {run}\n", lacking(run)]
        assert address.startswith("http://127.0.0.1:")
        with httpx.Client(base_url=address, timeout=HANG) as client:
            assert client.get("/api/run").json()["method"] == "mean"
            found = client.get("/api/predict", params={"head": "e3", "relation": "next", "top": 5}).json()
            batch = {"queries": [{"tail": "e7", "relation": "twice"}, {"head": "e3", "relation": "next"}], "top": 5}
            predictions = client.post("/api/predict", json=batch).json()["predictions"]
            assert "<title>relens</title>" in client.get("/").text
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANG)
    *logged, last = err.splitlines()
    assert (process.returncode, out, last) == (0, "", "relens: stopped")
    assert [" ".join(line.split()[2:5]) for line in logged] == [
        "GET /api/run 200", "GET /api/predict 200", "POST /api/predict 200", "GET / 200",
    ]  # fmt: skip
    ensemble = Ensemble.open(run, weights="mean", device="cpu")
    expected = ensemble.predict(head="e3", relation="next", top=5)
    assert expected.to_json().items() <= found.items()
    assert predictions[1] == found
    assert predictions[0]["answers"] == ensemble.predict(tail="e7", relation="twice", top=5).to_records()


def test_models_run_where_the_run_was_ranked_and_another_device_is_noted(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # for the process that serves: a machine without a GPU
    ranked = shutil.copytree(run, tmp_path / "ring")
    record = ranked / "ranks" / MADE_BY
    assert read_json(record, "record")["device"] == "cpu"
    record.write_text(json.dumps(read_json(record, "record") | {"device": "cuda"}))
    with served(ranked, "--port", 0, "--weights", "mean") as (_, lines):
        assert lines[:-1] == [
            f"relens: loading the models of {ranked}\n",
            f"relens: {ranked} was ranked on cuda, its models now run on cpu: scores may differ in the last bit, so "
            "ranks may differ from those of the evaluation\n",
            lacking(ranked),
        ]


def test_other_machines_have_access_with_a_token_only(run, tmp_path):
    everywhere = ("serve", run, "--port", 0, "--weights", "mean", "--host", "0.0.0.0")
    outcome = fail(
        2,
        "0.0.0.0 can be reached from other machines, and there is no token: anyone there could use the service. Write "
        "a token into a file and pass --token-file FILE, or set RELENS_TOKEN. --no-token serves everyone, for instance "
        "behind a proxy that asks for passwords.",
        *everywhere,
    )
    assert "loading" not in outcome.err
    token, file = "a-token-that-nobody-guesses", tmp_path / "token"
    file.write_text(f"{token}\n")
    log = tmp_path / "requests.log"
    for sent, given, environment in (
        (signal.SIGTERM, ("--token-file", file), {}),
        (signal.SIGHUP, (), {"RELENS_TOKEN": token}),
    ):
        with served(*everywhere[1:], *given, "--access-log", log, **environment) as (process, lines):
            assert lines[:-1] == [f"relens: loading the models of {run}\n", lacking(run)]
            port = lines[-1].split()[3].rstrip("/").rpartition(":")[2]
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=HANG) as client:
                assert client.get("/api/health", headers={"Host": "my.lab"}).json()["status"] == "ready"
                assert client.get("/api/run").status_code == 401
                found = client.get("/api/run", headers={"Host": "my.lab", "Authorization": f"Bearer {token}"})
                assert found.json()["method"] == "mean"
            process.send_signal(sent)
            assert process.communicate(timeout=HANG) == ("", "relens: stopped\n")
            assert process.returncode == 0
        assert token not in "".join(lines)
    assert re.findall(r"GET (\S+ \d+)", log.read_text()) == 2 * ["/api/health 200", "/api/run 401", "/api/run 200"]
    assert token not in log.read_text()


def test_other_machines_have_access_without_a_token_on_request_with_a_note(run):
    with served(run, "--port", 0, "--weights", "mean", "--host", "0.0.0.0", "--no-token") as (_, lines):
        assert lines[-2] == (
            "relens: 0.0.0.0 can be reached from other machines: anyone can use the service, there is no token\n"
        )
        port = lines[-1].split()[3].rstrip("/").rpartition(":")[2]
        found = httpx.get(f"http://127.0.0.1:{port}/api/run", headers={"Host": "my.lab"}, timeout=HANG)
        assert found.json()["method"] == "mean"


def test_a_taken_port_is_refused_before_anything_is_loaded(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = fail(1, f"cannot listen at 127.0.0.1 port {port}: Address already in use. Choose another port",
                       "serve", run, "--port", port, "--weights", "mean")  # fmt: skip
    assert "loading" not in outcome.err


def test_wrong_requests_are_refused(run, tmp_path, run_path):
    fail(2, "is not a run", "serve", tmp_path / "none")
    fail(2, "no such host", "serve", run, "--host", "no such host")
    fail(2, "has no weights 'best'", "serve", run, "--port", 0, "--weights", "best")
    fail(2, "choose one with --weights", "serve", run, "--port", 0)
    fail(2, "unknown device 'abacus'", "serve", run, "--port", 0, "--device", "abacus")
    fail(2, "cannot be read: No such file or directory", "serve", run, "--port", 0, "--token-file", tmp_path / "none")
    (tmp_path / "token").write_text("short")
    fail(2, "has a token of 5 characters", "serve", run, "--port", 0, "--token-file", tmp_path / "token")
    (tmp_path / "token").write_text("a-token-that-nobody-guesses")
    given = ("--port", 0, "--token-file", tmp_path / "token")
    fail(2, "--no-token contradicts the token that was given: drop it, or unset RELENS_TOKEN",
         "serve", run, "--no-token", *given)  # fmt: skip
    fail(2, "cannot write the request log", "serve", run, "--port", 0, "--access-log", tmp_path)
    fail(2, "No such option '--token'", "serve", run, "--port", 0, "--token", "a-token-that-nobody-guesses")
    fail(2, "65536 is not in the range", "serve", run, "--port", 65536)
    outcome = fail(
        2, "holds ranks only, and predictions need the models that made them", "serve", run_path, "--port", 0
    )
    assert "loading" not in outcome.err


def test_the_extra_is_named_where_it_is_missing(run):
    hidden = dict.fromkeys(("uvicorn", "fastapi"))
    loaded = [name for name in sys.modules if name.startswith("relens.serve")]
    with patch.dict(sys.modules, hidden):
        for name in loaded:
            del sys.modules[name]
        fail(
            1,
            "serving an ensemble needs an optional dependency: pip install -c constraints.txt '.[serve]'",
            "serve",
            run,
        )
