import re
from dataclasses import replace

import pytest
import torch

from relens.data.catalog import CATALOG
from relens.errors import InputError
from relens.models import MODELS, ModelEntry
from relens.models.transe import TransE
from relens.presets import DEFAULT, PAPER, PRESETS, read_preset
from relens.training.presets import resolve_settings
from relens.training.settings import FIELDS

DATASETS = ("wn18rr", "fb15k-237", "nell-995", "patterns", "something-else")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_model_and_data_set_resolves(dataset, model, preset) -> None:
    settings = resolve_settings(dataset, model, preset)
    assert settings.model == model
    assert settings.options.keys() == MODELS[model].options.keys()


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_name_models_and_data_sets_that_exist(preset) -> None:
    found = read_preset(preset)
    assert {found.model_of(member) for member in found.sections} <= MODELS.keys()
    assert {name for section in [*found.sections.values(), found.members] for name in section} <= {*CATALOG, DEFAULT}
    if found.extends is None:
        assert found.sections.keys() == MODELS.keys()


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_the_members_of_a_preset_resolve_and_differ(dataset, preset) -> None:
    found = read_preset(preset)
    members = found.members_for(dataset)
    settings = [resolve_settings(dataset, found.model_of(name), preset, member=name) for name in members]
    assert 5 <= len(members) <= 10
    assert all(one not in settings[:place] for place, one in enumerate(settings))


def test_the_members_are_the_papers_models_unless_a_preset_names_others() -> None:
    assert PAPER == ("transe", "rotate", "house", "complex", "conve", "compgcn")
    assert {preset for preset in PRESETS if read_preset(preset).members_for("wn18rr") == PAPER} == {
        "best", "demo", "paper", "small",
    }  # fmt: skip


def test_a_data_set_may_have_members_of_its_own() -> None:
    strong = read_preset("strong")
    assert strong.members_for("WN18RR") == strong.members["wn18rr"] != strong.members[DEFAULT]
    assert strong.members_for("my_graph") == strong.members[DEFAULT]


def test_a_preset_that_extends_another_changes_its_settings() -> None:
    best, strong = (resolve_settings("wn18rr", "house", preset) for preset in ("best", "strong"))
    assert strong == best
    best, strong = (resolve_settings("wn18rr", "nbfnet", preset) for preset in ("best", "strong"))
    assert strong == replace(best, steps=strong.steps, validate_every=strong.validate_every) != best
    deep = resolve_settings("wn18rr", "nbfnet", "strong", member="nbfnet-2")
    assert (deep.options["layers"], deep.lr) == (8, best.lr)
    assert resolve_settings("other", "nbfnet", "strong", member="nbfnet-2").options["layers"] == 4
    # A member of another model than the preset's has nothing of its section.
    assert resolve_settings("wn18rr", "rotate", "strong", member="nbfnet-2") == resolve_settings(
        "wn18rr", "rotate", "best"
    )


def test_models_of_other_packages_bring_settings_for_the_preset_that_is_extended(monkeypatch) -> None:
    entry = ModelEntry("mine", TransE, "mine", presets={"best": {DEFAULT: {"lr": 0.5}, "wn18rr": {"dim": 8}}})
    monkeypatch.setattr(MODELS, "find", lambda name: entry)
    settings = resolve_settings("wn18rr", "mine", "strong")
    assert (settings.lr, settings.options["dim"]) == (0.5, 8)


@pytest.mark.parametrize("model", MODELS)
def test_no_option_is_called_like_a_setting(model) -> None:
    assert MODELS[model].options.keys().isdisjoint(FIELDS)


@pytest.mark.parametrize(
    ("model", "dataset", "sizes", "n_parameters"),
    [
        ("transe", "wn18rr", (40_943, 11), 40_954_000),
        ("rotate", "wn18rr", (40_943, 11), 40_948_500),
        ("complex", "wn18rr", (40_943, 11), 81_930_000),
        ("complex", "fb15k-237", (14_541, 237), 29_556_000),
        ("rotate", "fb15k-237", (14_541, 237), 29_319_000),
        ("complex-rp", "ogbl-biokg", (93_773, 51), 187_750_000),
        ("autoblm", "ogbl-biokg", (93_773, 51), 192_047_104 + 51 * 2048),
        ("triplere", "ogbl-biokg", (93_773, 51), 469_630_000),
    ],
)
def test_paper_presets_have_the_listed_parameters(model, dataset, sizes, n_parameters) -> None:
    settings = resolve_settings(dataset, model, "paper")
    with torch.device("meta"):  # counted, not allocated
        assert MODELS[model].build(*sizes, settings.options).n_parameters == n_parameters


def test_paper_values_are_those_of_the_tables() -> None:
    settings = resolve_settings("WN18RR", "rotate", "paper")
    assert (settings.negatives, settings.batch, settings.steps) == (2048, 512, 100_000)
    assert (settings.loss, settings.alpha, settings.lr) == ("bce_adv", 1.6606758402, 1.2429089e-3)
    assert (settings.regulariser, settings.regulariser_weight) == ("fro", 5.1374818e-8)
    assert settings.options == {"dim": 1000, "gamma": 3.7802264062, "shared_inverse": True}
    assert resolve_settings("nell-995", "transe", "paper") == resolve_settings("fb15k-237", "transe", "paper")


def test_the_best_transe_of_nell_995_is_the_papers() -> None:
    assert resolve_settings("nell-995", "transe", "best", []) == resolve_settings("nell-995", "transe", "paper", [])


@pytest.mark.parametrize("preset", PRESETS)
def test_only_the_models_named_for_it_predict_relations(preset) -> None:
    weights = {model: resolve_settings("fb15k-237", model, preset).relation_weight for model in MODELS}
    assert {model for model, weight in weights.items() if weight} == {"autoblm", "complex-rp"}


def test_overrides_change_settings_and_options() -> None:
    changes = ["dim=500", "lr=1", "dropout=.5", "regulariser=none", "stop_after=4", "loss=bce_mean", "gamma = 7"]
    settings = resolve_settings("wn18rr", "transe", "paper", changes)
    assert (settings.options["dim"], settings.dropout) == (500, 0.5)
    assert settings.options["gamma"] == 7.0
    assert (settings.lr, settings.regulariser, settings.stop_after, settings.loss) == (1.0, None, 4, "bce_mean")
    listed = resolve_settings("wn18rr", "house", "paper", ["milestones=[100, 200]"])
    assert listed.milestones == (100, 200)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("negatvies=3", "unknown setting 'negatvies' of transe; did you mean 'negatives'"),
        ("gama=3", "unknown setting 'gama' of transe; did you mean 'gamma'"),
        ("layers=3", "unknown setting 'layers' of transe"),
        ("model=rotate", "unknown setting 'model' of transe"),
        ("dim", "'dim' changes no setting: expected key=value"),
        ("=3", "'=3' changes no setting"),
        ("dim=-3", "`dim=-3` of TransE: expected a whole number of at least 1"),
        ("dim=many", "`dim='many'` of TransE: expected a whole number"),
        ("lr=fast", "`lr='fast'`: expected a number"),
    ],
)
def test_wrong_overrides_are_refused(change, message) -> None:
    with pytest.raises(InputError, match=message):
        resolve_settings("wn18rr", "transe", "paper", [change])


def test_known_settings_are_listed_in_order_where_none_is_close() -> None:
    with pytest.raises(InputError, match="unknown setting 'nonsense' of transe; ") as raised:
        resolve_settings("wn18rr", "transe", "paper", ["nonsense=1"])
    listed = re.findall("'(.*?)'", str(raised.value))[1:]
    assert listed == sorted({*MODELS["transe"].options, *FIELDS} - {"model", "options"})


def test_unknown_models_and_presets_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'rotate'"):
        resolve_settings("wn18rr", "rotat", "paper")
    with pytest.raises(InputError, match="unknown preset 'papr'; did you mean 'paper'"):
        resolve_settings("wn18rr", "rotate", "papr")


def test_small_changes_demo_where_that_was_better() -> None:
    changed = {
        model for model in PAPER if resolve_settings("umls", model, "small") != resolve_settings("umls", model, "demo")
    }
    assert changed == {"complex", "house", "compgcn"}
    assert resolve_settings("umls", "complex", "small").options["dim"] == 256
