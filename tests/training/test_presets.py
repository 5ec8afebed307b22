import pytest
import torch

from relens.data.catalog import CATALOG
from relens.errors import InputError
from relens.models import MODELS, build, resolve_options
from relens.training.presets import DEFAULT, PRESETS, read_preset, resolve
from relens.training.settings import FIELDS

DATASETS = ("wn18rr", "fb15k-237", "nell-995", "patterns", "something-else")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_model_and_data_set_resolves(dataset, model, preset) -> None:
    settings = resolve(dataset, model, preset)
    assert settings.model == model
    assert settings.options.keys() == resolve_options(model, {}).keys()


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_name_models_and_data_sets_that_exist(preset) -> None:
    sections = read_preset(preset)
    assert sections.keys() == MODELS.keys()
    assert {name for section in sections.values() for name in section} <= {*CATALOG, DEFAULT}


@pytest.mark.parametrize("model", MODELS)
def test_no_option_is_called_like_a_setting(model) -> None:
    assert resolve_options(model, {}).keys().isdisjoint(FIELDS)


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
    settings = resolve(dataset, model, "paper")
    with torch.device("meta"):  # counted, not allocated
        assert build(model, *sizes, settings.options).n_parameters == n_parameters


def test_paper_values_are_those_of_the_tables() -> None:
    settings = resolve("WN18RR", "rotate", "paper")
    assert (settings.negatives, settings.batch, settings.steps) == (2048, 512, 100_000)
    assert (settings.loss, settings.alpha, settings.lr) == ("bce_adv", 1.6606758402, 1.2429089e-3)
    assert (settings.regulariser, settings.regulariser_weight) == ("fro", 5.1374818e-8)
    assert settings.options == {"dim": 1000, "gamma": 3.7802264062, "shared_inverse": True}
    assert resolve("nell-995", "transe", "paper") == resolve("fb15k-237", "transe", "paper")


def test_the_best_transe_of_nell_995_is_the_papers() -> None:
    assert resolve("nell-995", "transe", "best", []) == resolve("nell-995", "transe", "paper", [])


@pytest.mark.parametrize("preset", PRESETS)
def test_only_the_models_named_for_it_predict_relations(preset) -> None:
    weights = {model: resolve("fb15k-237", model, preset).relation_weight for model in MODELS}
    assert {model for model, weight in weights.items() if weight} == {"autoblm", "complex-rp"}


def test_overrides_change_settings_and_options() -> None:
    changes = ["dim=500", "lr=1", "regulariser=none", "stop_after=4", "loss=bce_mean", "gamma = 7"]
    settings = resolve("wn18rr", "transe", "paper", changes)
    assert settings.options["dim"] == 500
    assert settings.options["gamma"] == 7.0
    assert (settings.lr, settings.regulariser, settings.stop_after, settings.loss) == (1.0, None, 4, "bce_mean")
    listed = resolve("wn18rr", "house", "paper", ["milestones=[100, 200]"])
    assert listed.milestones == (100, 200)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("negatvies=3", "unknown setting 'negatvies' for transe; did you mean 'negatives'"),
        ("gama=3", "unknown setting 'gama' for transe; did you mean 'gamma'"),
        ("layers=3", "unknown setting 'layers' for transe"),
        ("model=rotate", "unknown setting 'model' for transe"),
        ("dim", "'dim' changes no setting: expected key=value"),
        ("=3", "'=3' changes no setting"),
        ("dim=-3", "dim of TransE is -3, expected a whole number of at least 1"),
        ("dim=many", "dim of TransE is 'many', expected a whole number"),
        ("lr=fast", "lr is 'fast', expected a number"),
    ],
)
def test_wrong_overrides_are_refused(change, message) -> None:
    with pytest.raises(InputError, match=message):
        resolve("wn18rr", "transe", "paper", [change])


def test_known_settings_are_listed_in_order_where_none_is_close() -> None:
    with pytest.raises(InputError, match="unknown setting 'nonsense' for transe; available: ") as raised:
        resolve("wn18rr", "transe", "paper", ["nonsense=1"])
    listed = str(raised.value).partition("available: ")[2].replace("'", "").split(", ")
    assert listed == sorted({*resolve_options("transe", {}), *FIELDS} - {"model", "options"})


def test_unknown_models_and_presets_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'rotate'"):
        resolve("wn18rr", "rotat", "paper")
    with pytest.raises(InputError, match="unknown preset 'papr'; did you mean 'paper'"):
        resolve("wn18rr", "rotate", "papr")
