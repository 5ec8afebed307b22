"""Plans: from options and from files."""

import pytest

from relens.errors import InputError
from relens.pipeline.plan import Plan, read_plan


def test_changes_are_for_all_models_or_for_one():
    plan = Plan(models=("transe", "rotate")).with_changes(["dim=8", "rotate.dim=16", "rotate.lr=0.1"])
    assert plan.changes == ("dim=8",)
    assert plan.model_changes == {"rotate": ("dim=16", "lr=0.1")}
    assert plan.with_changes(["lr=1"]).changes == ("dim=8", "lr=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [("dim", "expected key=value"), ("=3", "expected key=value")],
)
def test_changes_that_change_nothing_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        Plan().with_changes([text])


def test_a_file_sets_all_fields(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(
        'dataset = "wn18rr"\nmodels = ["transe", "second"]\npreset = "best"\nseed = 3\nmethods = ["mean", "dsc"]\n'
        "set = { batch = 512 }\n[second]\nmodel = 'rotate'\nshared_inverse = true\n"
    )
    assert read_plan(path) == Plan(
        dataset="wn18rr",
        models=("transe", "second"),
        preset="best",
        changes=("batch=512",),
        model_changes={"second": ("model=rotate", "shared_inverse=true")},
        methods=("mean", "dsc"),
        seed=3,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dataset = 3", "dataset is 3, expected a text"),
        ("models = 'transe'", "models is 'transe', expected a list of texts"),
        ("seed = true", "seed is True, expected a whole number"),
        ("sede = 1", "unknown key 'sede'.*did you mean 'seed'"),
        ("dataset = ", "cannot be read as TOML"),
        ("seed = " + "[" * 100_000, "cannot be read as TOML: it is nested too deep"),
        ("seed = " + "9" * 4301, "cannot be read as TOML: Exceeds the limit"),
        ("set = 3", "set is 3, expected a table"),
        ("models = []", "expected one or more different names"),
        ("models = ['transe', 'transe']", "expected one or more different names"),
    ],
)
def test_wrong_files_are_refused(tmp_path, text, message):
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_plan(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_plan(tmp_path / "none.toml")
