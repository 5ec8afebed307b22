"""Files of questions: tabs or JSON, and the line at fault where something is wrong."""

import gzip

import pytest

from relens.errors import DatasetError, InputError
from relens.prediction import Ensemble
from relens.prediction.questions import read_questions

ASKED = [("site_04_17", "north_neighbour", "tail"), ("kind_10", "kind_of", "head")]
TABS = "".join("\t".join(question) + "\n" for question in ASKED)
OBJECTS = "".join(f'{{"direction": "{d}", "anchor": "{e}", "relation": "{r}"}}\n' for e, r, d in ASKED)


@pytest.fixture(scope="module")
def ensemble(run):
    return Ensemble.open(run, "dsc-rank")


@pytest.mark.parametrize(
    "text", [TABS, "anchor\trelation\tdirection\n" + TABS, OBJECTS, TABS.replace("\n", "\r\n\r\n")]
)
def test_tabs_and_json_say_the_same(ensemble, tmp_path, text):
    path = tmp_path / "asked"
    path.write_bytes(text.encode())
    assert read_questions(path, ensemble) == ASKED
    packed = tmp_path / "asked.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_questions(packed, ensemble) == ASKED


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (InputError, "", "has no questions: expected one line per question with anchor, relation, direction"),
        (InputError, TABS + "a\tb\n", "line 3: found 2 fields in 'a\\tb', expected three separated by tabs: anchor,"),
        (DatasetError, TABS + "kind_1O\tkind_of\thead\n", "line 3: unknown entity 'kind_1O'; did you mean 'kind_1"),
        (DatasetError, "kind_10\tkindof\thead\n", "line 1: unknown relation 'kindof'; did you mean 'kind_of'"),
        (
            InputError,
            "kind_10\tkind_of\tup\n",
            "line 1: unknown direction 'up': expected the missing side, tail or head",
        ),
        (InputError, OBJECTS + "{not json}", "line 3: not readable JSON"),
        (InputError, OBJECTS.replace("anchor", "entity"), "line 1: no text under 'anchor' in {"),
        (InputError, "entity\trelation\tdirection\n" + TABS, "line 1: unknown direction 'direction'"),
        (InputError, '{"anchor": "kind_10", "relation": 3}', "line 1: no text under 'relation' in {"),
    ],
)
def test_the_line_at_fault_is_named(ensemble, tmp_path, kind, text, message):
    path = tmp_path / "asked.tsv"
    path.write_text(text)
    with pytest.raises(kind) as caught:
        read_questions(path, ensemble)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(ensemble, tmp_path):
    with pytest.raises(DatasetError, match=r"none\.tsv does not exist"):
        read_questions(tmp_path / "none.tsv", ensemble)
