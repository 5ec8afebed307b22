"""Runs with a time budget: the plan that they keep, follow, and go on with; with paces that tests make up."""

import json

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

import torch
from safetensors.torch import load_file

from relens.data.catalog import load_dataset
from relens.errors import DamagedError, InputError
from relens.pipeline import budgeting, training
from relens.pipeline import run as pipeline
from relens.pipeline.budget import AIM, BudgetPlan, parse_budget
from relens.pipeline.plan import Plan, read_plan
from relens.pipeline.training import train_model
from relens.progress import Silent
from relens.runs import PLAN, Run
from relens.training.pace import Pace
from tests.pipeline.graph import CHANGES, MODELS, write_ring

CPU = torch.device("cpu")
OPTIONS = [text for text in CHANGES if not text.startswith(("steps", "validate_every"))]


class Notes(Silent):
    """A display that remembers notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


PACE = Pace(begin=0.05, step=0.0015, validation=0.02)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return str(write_ring(tmp_path_factory.mktemp("graphs") / "ring"))


@pytest.fixture
def paces(monkeypatch):
    """Let a model have the same pace in every preset, and the search take a second."""
    found: dict[str, Pace] = {}

    def measured(dataset, members, places, budget):
        return {name: {preset: found.get(name, PACE) for preset, _ in presets} for name, presets in members.items()}

    monkeypatch.setattr(budgeting, "measure_paces", measured)
    monkeypatch.setattr(budgeting, "rehearse_search", lambda dataset, n, methods, jobs: 0.1)
    return found


def plan_for(graph, budget="8s", changes=OPTIONS, **others):
    others = {"models": MODELS, "preset": "demo", "methods": ("mean", "dsc"), **others}
    return Plan(graph, budget=budget, **others).with_changes(changes)


def quick(graph, budget="1m", changes=(), **others):
    """Return a plan whose trainings have few steps, whatever the clock says."""
    common = [text for text in OPTIONS if "." not in text]
    return plan_for(
        graph,
        budget,
        **{"models": ("complex", "transe"), "seeds": 1, "changes": [*common, "steps=30", *changes], **others},
    )


def go(plan, path, **options):
    execution = pipeline.Execution(**{"devices": [CPU], "report": False, **options})
    return pipeline.run_plan(plan, path, execution)


def planned(plan, tmp_path, **options):
    """Return the plan alone."""
    execution = pipeline.Execution(devices=[CPU], **options)
    dataset = load_dataset(plan.dataset)
    run = Run.open_or_create(tmp_path / "run", dataset.name)
    return budgeting.settle(run, plan, dataset, execution, budgeting.time.time())


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172_800), ("1 H", 3600)]
)
def test_budgets_are_times(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "m", "-3m", "0s", "3m?", "ten minutes", "1e3s"])
def test_other_budgets_are_refused(text):
    with pytest.raises(InputError, match=r"`budget=.*`: expected a time, for instance 90s, 15m or 1h30m"):
        parse_budget(text)


def test_a_run_keeps_the_plan_that_it_followed(graph, paces, tmp_path, monkeypatch):
    progress = Notes()
    run = go(plan_for(graph), tmp_path / "run", jobs=2, progress=progress)
    found = BudgetPlan.open(run)
    assert set(found.members) == set(MODELS)
    assert {name: model.settings for name, model in run.models.items()} == found.settings
    assert any("Plan for 8 s" in note for note in progress.notes)
    assert any("of 8 s (" in note for note in progress.notes)
    # What the plan says, without the budget, is what was trained: bit for bit.
    name = next(iter(found.members))
    again = train_model(load_dataset(graph), found.settings[name], tmp_path / "again", device=CPU)
    kept, anew = (load_file(each.folder / "model.safetensors") for each in (run.model(name), again))
    assert all(torch.equal(kept[key], anew[key]) for key in kept)
    # The same command has nothing left to do.
    monkeypatch.setattr(budgeting, "measure_paces", None)
    monkeypatch.setattr(training, "train_model", None)
    before = (run.path / PLAN).read_bytes()
    go(plan_for(graph), tmp_path / "run")
    assert (run.path / PLAN).read_bytes() == before


def test_an_interrupted_run_goes_on_with_its_plan(graph, paces, tmp_path, monkeypatch):
    real, calls = training.save_trained, []

    def fragile(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(training, "save_trained", fragile)
    with pytest.raises(KeyboardInterrupt):
        go(quick(graph), tmp_path / "run")
    monkeypatch.setattr(training, "save_trained", real)
    monkeypatch.setattr(budgeting, "measure_paces", None)
    run = Run.open(tmp_path / "run")
    (first,) = run.model_names
    kept, planned = run.model(first).settings, BudgetPlan.open(run)
    progress = Notes()
    go(quick(graph), tmp_path / "run", progress=progress)
    assert any("the plan for 1m goes on as it stands" in note for note in progress.notes)
    found = BudgetPlan.open(run)
    assert (list(found.members), found.settings[first]) == (list(planned.members), kept)
    assert {name: model.settings for name, model in run.models.items()} == found.settings


def test_another_request_is_refused_and_training_anew_plans_anew(graph, paces, tmp_path):
    go(quick(graph), tmp_path / "run")
    for other in (
        quick(graph, "2m"),
        quick(graph, seed=1),
        quick(graph, changes=["lr=0.1"]),
    ):
        with pytest.raises(InputError, match=r"plan\.json is a plan with .* instead of .*`run=PATH`.*`force=train`"):
            go(other, tmp_path / "run")
    run = go(quick(graph, "2m", changes=["lr=0.1"]), tmp_path / "run", force=["train"])
    found = BudgetPlan.open(run)
    assert (found.seconds, found.settings["complex"].lr) == (120, 0.1)
    assert {name: model.settings for name, model in run.models.items()} == found.settings


def test_a_budget_too_small_says_what_would_fit(graph, paces, tmp_path):
    with pytest.raises(
        InputError, match=r"a budget of 0 s is too small for any model .* The fastest, \w+, takes about"
    ):
        planned(plan_for(graph, "0.1s", models=None, changes=()), tmp_path)
    paces["conve"] = Pace(1, 10, 1)
    message = (
        r"a budget of 60 s is too small for transe, complex, conve .*: conve would not fit, although transe, complex "
        r"would\. All in their smallest sizes take about \d+ min: raise `budget=TIME`, or name fewer with"
    )
    with pytest.raises(InputError, match=message):
        planned(plan_for(graph, "60s"), tmp_path)
    assert "conve" not in planned(plan_for(graph, "60s", models=None, changes=()), tmp_path).members
    assert not (tmp_path / "run" / "models").exists()


def test_an_error_before_anything_is_measured(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(budgeting, "measure_paces", None)
    with pytest.raises(InputError, match="expected a time"):
        go(plan_for(graph, "soon"), tmp_path / "run")
    with pytest.raises(InputError, match="changes a setting that no model has"):
        go(plan_for(graph, changes=["dimm=3"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_plan_fills_its_time(graph, paces, tmp_path):
    found = planned(plan_for(graph, "30s"), tmp_path, jobs=2)
    times = [member.seconds for member in found.members.values()]
    assert found.places == 2
    assert sum(times) >= 2 * (AIM * 30 - found.after) * 0.9
    assert max(times) <= AIM * 30 - found.after
    assert found.more.startswith("Twice the time would")


def test_what_the_user_fixes_stays(graph, paces, tmp_path):
    fixed = [*OPTIONS, "complex.steps=77", "validate_every=50"]
    found = planned(plan_for(graph, "60s", changes=fixed), tmp_path)
    assert set(found.members) == set(MODELS) | {f"{name}-{k}" for name in MODELS for k in range(2, 9)} & set(
        found.members
    )
    assert {member.preset for member in found.members.values()} == {"demo"}
    assert {each.steps for name, each in found.settings.items() if name.startswith("complex")} == {77}
    assert {each.validate_every for each in found.settings.values()} == {50}
    assert {each.options["dim"] for each in found.settings.values()} == {16}


def test_time_that_is_left_goes_into_seeds_unless_their_number_is_given(graph, paces, tmp_path):
    given = [*OPTIONS, "steps=20"]
    free = planned(plan_for(graph, "30s", changes=given), tmp_path / "a")
    assert set(free.members) == {*MODELS, *(f"{name}-{k}" for name in MODELS for k in range(2, 9))}
    assert [free.settings[f"complex{k}"].seed for k in ("", "-2", "-8")] == [0, 1, 7]
    two = planned(plan_for(graph, "30s", changes=given, seeds=2), tmp_path / "b")
    assert set(two.members) == {*MODELS, *(f"{name}-2" for name in MODELS)}


def test_a_plan_in_toml_has_a_budget(tmp_path):
    (tmp_path / "plan.toml").write_text('budget = "15m"\nseeds = 3\n')
    plan = read_plan(tmp_path / "plan.toml")
    assert (plan.budget, plan.seeds) == ("15m", 3)


def test_a_damaged_plan_is_named(graph, paces, tmp_path):
    planned(plan_for(graph, "30s"), tmp_path)
    path = tmp_path / "run" / PLAN
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "members": {"complex": {}}}))
    with pytest.raises(
        DamagedError, match=r"plan\.json is damaged, or was edited.* pass `force=train` to plan and train anew"
    ):
        planned(plan_for(graph, "30s"), tmp_path)
