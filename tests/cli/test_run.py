"""``relens run`` from the command line."""

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from tests.cli.commands import fail, succeed
from tests.pipeline.graph import CHANGES, MODELS, write_ring

OPTIONS = ("--models", ",".join(MODELS), "--device", "cpu", "--no-report", "--jobs", "1")
OPTIONS += tuple(part for change in CHANGES for part in ("--set", change))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return write_ring(tmp_path_factory.mktemp("graphs") / "ring")


@pytest.fixture(scope="module")
def finished(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "ring"
    return path, succeed("run", graph, "--run", path, *OPTIONS)


def test_one_command_prints_the_table(finished):
    path, outcome = finished
    assert "Comparison on ring (test)" in outcome.out
    assert "transe: step 30" in outcome.err
    assert f"relens predict {path}" in outcome.err


def test_the_same_command_again_prints_the_same(graph, finished):
    path, outcome = finished
    again = succeed("run", graph, "--run", path, *OPTIONS)
    assert again.out == outcome.out
    assert "step" not in again.err


def test_json_and_a_configuration_file(graph, finished, tmp_path):
    config = tmp_path / "plan.toml"
    config.write_text(
        f'dataset = "{graph}"\nmodels = {list(MODELS)}\n'
        "set = { steps = 30, validate_every = 10, batch = 64, dim = 16 }\n"
        "[conve]\nchannels = 2\nheight = 4\n[transe]\nnegatives = 8\n"
    )
    found = succeed("run", "--config", config, "--run", finished[0], "--device", "cpu", "--no-report", "--json").json
    assert [evaluation["name"] for evaluation in found["evaluations"]][:3] == list(MODELS)


def test_wrong_requests(graph, tmp_path):
    fail(2, "did you mean 'transe'", "run", graph, "--run", tmp_path / "r", "--models", "trans", "--device", "cpu")
    fail(2, "unknown stage", "run", graph, "--run", tmp_path / "r", "--force", "everything", "--device", "cpu")
    fail(2, "unknown preset", "run", graph, "--run", tmp_path / "r", "--preset", "beast", "--device", "cpu")
    assert not (tmp_path / "r").exists()
