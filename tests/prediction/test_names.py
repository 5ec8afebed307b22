"""Names in: labels, readable names, and what is close to a wrong one."""

import pytest

from relens.data.dataset import Dataset, read_folder
from relens.errors import DatasetError, InputError
from relens.prediction import AmbiguousNameError, Names, NoSuchNameError
from relens.prediction.names import the_direction


@pytest.fixture
def names(tmp_path):
    (tmp_path / "train.txt").write_text("Q90\tcapital_of\tQ142\nQ167646\tcapital_of\tQ142\nQ64\tcapital_of\tQ183\n")
    (tmp_path / "valid.txt").write_text("")
    (tmp_path / "test.txt").write_text("")
    (tmp_path / "labels.tsv").write_text("Q90\tParis\nQ167646\tParis\nQ142\tFrance\nQ64\tBerlin\nQ9\tnowhere\n")
    return Names(read_folder(tmp_path))


def test_labels_and_readable_names_are_understood(names):
    labels = names.dataset.entities.labels
    assert labels[names.entity("Q64")] == labels[names.entity("Berlin")] == labels[names.entity("berlin")] == "Q64"
    assert names.relation("capital_of") == names.relation("Capital_Of") == 0


def test_case_matters_only_where_several_fit(names):
    labels = names.dataset.entities.labels
    assert labels[names.entity("q142")] == labels[names.entity("FRANCE")] == "Q142"
    both = Names(Dataset.from_labels("both", train=[("us", "IS", "US"), ("us", "is", "them")], valid=[], test=[]))
    labels = both.dataset.entities.labels
    assert (labels[both.entity("us")], labels[both.entity("US")]) == ("us", "US")
    assert both.dataset.relations.labels[both.relation("is")] == "is"
    with pytest.raises(AmbiguousNameError, match="2 entities are called 'Us': 'US', 'us'") as caught:
        both.entity("Us")
    assert caught.value.choices == ("US", "us")
    with pytest.raises(AmbiguousNameError, match="2 relations are called 'Is': 'IS', 'is'"):
        both.relation("Is")


def test_a_refusal_holds_the_choices(names):
    with pytest.raises(NoSuchNameError) as caught:
        names.entity("Berlim")
    assert caught.value.choices == ("Berlin",)
    with pytest.raises(NoSuchNameError, match="unknown relation 'x'; available: 'capital_of'") as caught:
        names.relation("x")
    assert caught.value.choices == ()


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("entity", "Berlim", "unknown entity 'Berlim'; did you mean 'Berlin'?"),
        ("entity", "Paris", "2 entities are called 'Paris': 'Q167646', 'Q90'. Give the label of one of them."),
        ("entity", "nowhere", "unknown entity 'nowhere'"),
        ("relation", "capital", "unknown relation 'capital'; did you mean 'capital_of'?"),
    ],
)
def test_wrong_names_get_the_closest_ones(names, kind, text, message):
    with pytest.raises(DatasetError) as caught:
        getattr(names, kind)(text)
    assert message in str(caught.value)


def test_where_nothing_is_close_some_names_are_listed():
    """One of each kind; of many kinds some, and of one kind some from everywhere."""
    rows = [(f"{kind}_{i:05d}", "is", "x") for kind in ("site", "person") for i in range(3_000)]
    assert listed(rows) == "'person_00000', 'site_00000', 'x', …"
    assert listed([(f"{i:05d}", "is", "00000") for i in range(1_200)]) == (
        ", ".join(f"'{100 * i:05d}'" for i in range(12)) + ", …"
    )
    letters = "abcdefghijklmnopqrstuvwx"
    assert listed([(letter, "is", "a") for letter in letters]) == ", ".join(map(repr, letters[::2])) + ", …"
    assert listed([(letter, "is", "a") for letter in letters[:12]]) == ", ".join(map(repr, letters[:12]))


def listed(rows) -> str:
    with pytest.raises(NoSuchNameError) as caught:
        Names(Dataset.from_labels("many", train=rows, valid=[], test=[])).entity("?")
    return str(caught.value).removeprefix("unknown entity '?'; available: ")


def test_one_of_head_and_tail_is_asked_about():
    assert (the_direction("x", None), the_direction(None, "x")) == (0, 1)
    for head, tail, found in ((None, None, "neither"), ("x", "y", "both")):
        with pytest.raises(InputError, match=f"found {found} of `head=…` and `tail=…`: give the known one"):
            the_direction(head, tail)
