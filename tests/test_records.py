"""Records: kinds and formats are checked by one wording, and damage names the file."""

import json

import pytest

import relens
from relens.errors import InputError, WeightsError
from relens.records import WEIGHTS, Provenance, RecordKind, mapping, number, text, texts, whole

LETTER = RecordKind("relens letter", 3, "Write it again.", WeightsError)


def test_a_written_record_is_read_again(tmp_path):
    LETTER.write(tmp_path / "letter.json", {"text": "hello"})
    found = LETTER.read(tmp_path / "letter.json")
    assert found == {"kind": "relens letter", "format": 3, "relens": relens.__version__, "text": "hello"}
    assert LETTER.matches(found)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"kind": "relens weights", "format": 3},
            "letter.json is not a 'relens letter' record: its kind is 'relens weights'. Write",
        ),
        (
            {"format": 3},
            "its kind is None. Convert a run of an older relens with `relens upgrade RUN`, or write",
        ),
        ({"kind": "relens letter", "format": 2}, "has format 2, this relens reads format 3. Convert the run with"),
        ({"kind": "relens letter", "format": 4, "relens": "9.1"}, "Use relens 9.1, which wrote it, or write it again"),
        ({"kind": "relens letter", "format": "odd"}, "has format 'odd'.* Use the relens that wrote it"),
    ],
)
def test_other_kinds_and_formats_raise_the_error_of_the_kind(tmp_path, value, message):
    (tmp_path / "letter.json").write_text(json.dumps(value))
    assert not LETTER.matches(value)
    with pytest.raises(WeightsError, match=message):
        LETTER.read(tmp_path / "letter.json")


def test_damage_names_the_record():
    with (
        pytest.raises(WeightsError, match=r"w.json is damaged \(KeyError\('models'\)\). Search again"),
        WEIGHTS.parsing("w.json"),
    ):
        {}["models"]
    with pytest.raises(InputError, match="as it was"), WEIGHTS.parsing("w.json"):
        raise InputError("as it was")


def test_provenance_survives_json():
    provenance = Provenance("toy", "abc", "valid", ("train", "valid"), "sampled")
    value = json.loads(json.dumps(provenance.to_json()))
    assert Provenance.from_json({**value, "more": 1}) == provenance


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (text, ["", "né"], [None, 1, b"x", ["x"]]),
        (whole, [0, 2**63 - 1], [-1, 2**63, 1.0, True, None, "1"]),
        (number, [0, -1.5, 2**70], [float("nan"), float("inf"), True, None, "1"]),
        (mapping, [{}, {"a": 1}], [[], None, "x"]),
    ],
)
def test_parts_of_records_have_their_types(check, good, bad):
    assert [check(value) for value in good] == good
    for value in bad:
        with pytest.raises((TypeError, ValueError), match=r"^found .*, expected an? "):
            check(value)


def test_lists_of_texts_are_lists():
    assert texts(["a", "b"]) == ("a", "b")
    for value in ("ab", {"a": 1}, ["a", 1], None):
        with pytest.raises(TypeError, match="expected a"):
            texts(value)
