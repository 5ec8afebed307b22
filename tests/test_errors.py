"""Errors by kind, and the hint that names what was probably meant."""

import pickle

import pytest

from relens.errors import (
    DatasetError,
    InputError,
    MissingExtraError,
    RanksError,
    RelensError,
    WeightsError,
    counted,
    nearest,
)


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("wn18r", ["wn18rr", "fb15k-237"], "did you mean 'wn18rr'?"),
        ("WN18RR", ["wn18rr", "fb15k-237"], "did you mean 'wn18rr'?"),
        ("rotate", ["RotatE", "TransE"], "did you mean 'RotatE'?"),
        ("model-1", ["model-3", "model-2", "other"], "did you mean 'model-3' or 'model-2'?"),
        ("zzz", ["abc", "def"], "available: 'abc', 'def'"),
        ("", ["abc"], "available: 'abc'"),
        ("x", [], "there are none"),
        ("it's", ["its"], "did you mean 'its'?"),
    ],
)
def test_the_hint_lists_similar_names(name, known, hint):
    assert nearest(name, known) == hint


def test_the_hint_stays_short_with_many_names():
    assert nearest("zzz", [f"a{i}" for i in range(12)]).endswith("'a11'")
    many = nearest("zzz", (f"a{i}" for i in range(500)))
    assert many == "available: " + ", ".join(f"'a{i}'" for i in range(12)) + ", …"
    assert nearest("model", [f"model{i}" for i in range(9)]).count("model") == 3
    assert nearest("model", [f"model{i}" for i in range(9)], limit=1).count("model") == 1


@pytest.mark.parametrize(
    ("number", "noun", "plural", "text"),
    [
        (1, "model", None, "1 model"),
        (2, "model", None, "2 models"),
        (0, "group", None, "0 groups"),
        (1, "query", "queries", "1 query"),
        (1200, "query", "queries", "1,200 queries"),
    ],
)
def test_nouns_agree_with_their_number(number, noun, plural, text):
    assert counted(number, noun, plural) == text


@pytest.mark.parametrize("kind", [DatasetError, RanksError, WeightsError])
def test_wrong_input_is_a_value_error_of_ours(kind):
    assert issubclass(kind, InputError)
    assert issubclass(kind, RelensError)
    assert issubclass(kind, ValueError)


def test_a_missing_extra_says_what_to_install_and_is_not_the_inputs_fault():
    error = MissingExtraError("searcher 'tpe'", "tpe")
    hint = "pip install -c constraints.txt '.[tpe]' in a clone of relens"
    assert str(error) == f"searcher 'tpe' needs an optional dependency: {hint}"
    assert isinstance(error, RelensError)
    assert isinstance(error, ImportError)
    assert not isinstance(error, InputError)


@pytest.mark.parametrize("error", [MissingExtraError("method 'stacking'", "stacking"), WeightsError("a: found 1")])
def test_errors_cross_from_worker_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


def test_long_messages_lose_their_middle_and_keep_the_remedy():
    message = str(DatasetError("found " + "x" * 10**6 + " in a.tsv. Remove it."))
    assert len(message) == 8_003
    assert message.startswith("found xxx")
    assert message.endswith("xxx in a.tsv. Remove it.")
    assert str(InputError("x" * 8_000)) == "x" * 8_000
