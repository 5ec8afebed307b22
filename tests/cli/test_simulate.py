"""``relens simulate``: the whole engine without data."""

import subprocess
import sys

import pytest

from relens.cli import compare as simulate_module
from relens.comparison import compare
from relens.files import read_json
from relens.packs.simulation import Simulation
from relens.packs.store import save_pack
from relens.runs import Run
from relens.training.interruption import SIGNALS
from tests import simulated
from tests.cli.commands import fail, succeed
from tests.patience import HANG


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Shrink the simulation, so that it takes a second."""
    monkeypatch.setattr(simulate_module, "MODELS", ("translation", "rotation", "bilinear"))
    monkeypatch.setattr(simulate_module, "TRIPLES", (20, 12, 6))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_simulation_leaves_a_run_that_the_next_commands_take(small):
    outcome = succeed("simulate", "--jobs", 1)
    assert "simulating 3 models on 76 queries per split, 3 relations" in outcome.err
    assert outcome.out.startswith("Comparison on simulated (test)\n")
    run = Run.open(small / "runs" / "simulated")
    assert run.ranks("test").models == ("translation", "rotation", "bilinear")
    assert run.weights_names == ["dsc"]
    hints = outcome.err.splitlines()[-1].removeprefix("relens: next: ").split("; ")
    assert hints == [
        "relens weights show runs/simulated",
        "relens evaluate runs/simulated --by relation",
        "relens ranks show runs/simulated",
    ]
    for hint in hints:
        assert succeed(*hint.split()[1:]).out


def test_its_numbers_are_those_of_the_run_it_leaves(small):
    found = succeed("simulate", "--json", "--seed", 3, "--run", "r", "--jobs", 1).json
    by_name = {evaluation["name"]: evaluation for evaluation in found["evaluations"]}
    again = succeed("evaluate", "r", "--json", "--seed", 3).json
    assert again["overall"] == by_name["dsc"]["overall"]
    assert again["paired"] == by_name["dsc"]["paired"]
    compared = succeed("compare", "r", "--seed", 3, "--json", "--jobs", 2).json
    assert compared["evaluations"] == found["evaluations"]


def test_relation_aware_weights_win_in_the_simulation_itself():
    """The real models, fewer queries: weights per relation beat every single model and the mean."""
    triples = tuple(n // 4 for n in simulate_module.TRIPLES[:6])
    simulation = Simulation(
        simulate_module.MODELS, triples, n_entities=300, level=(2.4, 1.1), skill=0.45, noise=0.5, agreement=0.6, seed=0
    )
    comparison = compare(simulation.packed("valid"), simulation.packed("test"), ["mean", "simple:input=rank", "dsc"])
    mrr = {evaluation.name: evaluation.overall.mrr for evaluation in comparison.evaluations}
    assert mrr["dsc"] > mrr["simple:input=rank"] > mrr["mean"]
    assert mrr["dsc"] > max(mrr[model] for model in simulate_module.MODELS)


def test_an_earlier_simulation_is_replaced(small):
    succeed("simulate", "--seed", 1, "--jobs", 1)
    succeed("simulate", "--seed", 2, "--jobs", 1)
    run = Run.open("runs/simulated")
    assert run.ranks("valid").provenance.fingerprint == "seed 2"
    assert read_json(run.weights_path("dsc"), "record")["dataset"]["fingerprint"] == "seed 2"
    assert sorted(path.name for path in run.path.iterdir()) == [".lock", "ranks", "run.json", "weights"]


def test_ranks_that_are_not_simulated_are_never_replaced(small):
    mine = Run.create("mine", "wn18rr")
    before = simulated.packed("valid")
    save_pack(before, mine.ranks_path("valid"))
    fail(2, "mine holds ranks that are not simulated: choose another place with --run", "simulate", "--run", "mine")
    assert Run.open("mine").ranks("valid").provenance == before.provenance
    (small / "papers").mkdir()
    (small / "papers" / "thesis.tex").write_text("years of work")
    fail(2, "papers exists and is not a run: choose another directory", "simulate", "--run", "papers")
    assert [path.name for path in (small / "papers").iterdir()] == ["thesis.tex"]


def test_an_interrupt_leaves_no_half_written_run(small, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate_module, "save_pack", interrupted)
    fail(130, "interrupted; nothing half-written was left behind", "simulate", "--run", "r")
    assert list(small.iterdir()) == []


def test_a_place_with_a_space_is_quoted_in_the_hint(small):
    outcome = succeed("simulate", "--run", "my runs/simulated", "--jobs", 1)
    assert "relens weights show 'my runs/simulated'; relens evaluate 'my runs/simulated' --by relation" in outcome.err


@pytest.mark.parametrize("sent", SIGNALS)
def test_a_real_interrupt_ends_with_130_and_leaves_nothing(tmp_path, sent):
    command = [sys.executable, "-m", "relens", "simulate", "--run", str(tmp_path / "r")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("relens: simulating 5 models on 3,900 queries")
        process.send_signal(sent)
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, out) == (130, "")
    assert err.endswith("interrupted; nothing half-written was left behind. Run the same command again to resume.\n")
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
