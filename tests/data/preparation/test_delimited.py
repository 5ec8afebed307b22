"""Text tables: delimiters, quotes, headings, columns, and errors that name the line."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.data.preparation import delimited
from relens.errors import DatasetError
from tests.reading import put, read

ROWS = [("a", "likes", "b"), ("b", "likes", "c"), ("c", "knows", "a")]
MANY = [(f"e{i % 7}", f"r{i % 3}", f"e{i % 5}") for i in range(40)]


def text_of(rows, delimiter="\t", end="\n"):
    return "".join(delimiter.join(row) + end for row in rows)


@pytest.mark.parametrize(
    ("delimiter", "name"),
    [("\t", None), (",", "commas"), (";", "semicolons"), ("|", "pipes"), (" ", "spaces"), ("  ", "spaces")],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_delimiters_are_recognised(tmp_path, delimiter, name, end, mark):
    rows, notes = read(put(tmp_path / "g.txt", mark + text_of(ROWS, delimiter, end) + end))
    assert rows == ROWS
    assert notes == ([] if name is None else [f"{tmp_path}/g.txt: fields are separated by {name}"])


def test_spaces_and_quotes_in_labels(tmp_path):
    tabs = [('"New" York', "is in", 'the, "States"'), (" x", "y;z", "u,v")]
    assert read(put(tmp_path / "g.tsv", text_of(tabs)), strip=False)[0] == tabs
    quoted = put(tmp_path / "g.csv", 'a,"is, in","say ""x"""\n"two words" , r, "b"\n'.replace('" ,', '",'))
    assert read(quoted)[0] == [("a", "is, in", 'say "x"'), ("two words", "r", "b")]
    plain = put(tmp_path / "p.csv", '"a,r,"b\nc,r,5" disk\n')
    assert read(plain, quotes=False)[0] == [('"a', "r", '"b'), ("c", "r", '5" disk')]


label = st.text(st.characters(exclude_characters="\t\n\r\x00", exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(label, label, label), min_size=1, max_size=8), st.sampled_from(",;|\t"), st.booleans())
def test_whatever_the_csv_module_writes_is_read_back(tmp_path_factory, rows, delimiter, strip):
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    path = put(tmp_path_factory.mktemp("csv") / "g.csv", stream.getvalue())
    found, _ = read(path, delimiter=delimiter, quotes=True, header=False, strip=strip)
    assert found == [tuple(map(str.strip, row)) if strip else row for row in rows]


@pytest.mark.parametrize(
    ("heading", "why"),
    [
        ("head\trelation\ttail", "it names columns"),
        ("Subject\tPREDICATE\tobject", "it names columns"),
        ("drug\teffect\tdisease", "none of its labels occurs again"),
    ],
)
def test_headings_are_recognised(tmp_path, heading, why):
    path = put(tmp_path / "g.tsv", heading + "\n" + text_of(MANY))
    rows, notes = read(path)
    assert rows == MANY
    (note,) = notes
    assert note.startswith(f"{path}: line 1 is a heading, not a triple ({why}; `header=False` reads it as a triple): ")
    assert note.endswith(heading.replace("\t", ", "))
    assert read(path, header=False) == ([tuple(heading.split("\t")), *MANY], [])
    assert read(path, header=True)[0] == MANY


def test_numbers_below_text_show_a_heading(tmp_path):
    rows, _ = read(put(tmp_path / "g.csv", "drug,effect,disease\n1,2,3\n4,5,6\n"))
    assert rows == [("1", "2", "3"), ("4", "5", "6")]
    rows, notes = read(put(tmp_path / "w.csv", "drug,effect,disease,score\na,r,b,.5\nc,s,d,.7\n"))
    assert rows == [("a", "r", "b"), ("c", "s", "d")]
    assert notes[-1].endswith(
        "used as head 1 ('drug'), relation 2 ('effect'), tail 3 ('disease'); not used: 4 ('score')"
    )


@pytest.mark.parametrize("first", [("e1", "r1", "x"), ("x", "r9", "e1"), ("head", "r1", "tail"), ("1", "2", "3")])
def test_facts_are_no_headings(tmp_path, first):
    rows, notes = read(put(tmp_path / "g.tsv", text_of([first, *MANY])))
    assert (rows, notes) == ([first, *MANY], [])


def test_few_facts_may_stand_alone(tmp_path):
    rows = [("a", "r", "b"), ("c", "s", "d"), ("e", "t", "f")]
    assert read(put(tmp_path / "g.tsv", text_of(rows))) == (rows, [])


def test_a_heading_with_an_order_of_its_own_is_followed(tmp_path):
    path = put(tmp_path / "g.csv", "subject,object,predicate\na,b,r\nb,c,s\n")
    rows, notes = read(path)
    assert rows == [("a", "r", "b"), ("b", "s", "c")]
    assert notes[-1] == f"{path}: 3 columns, used as head 1 ('subject'), relation 3 ('predicate'), tail 2 ('object')"


@pytest.mark.parametrize("columns", [("gene", "kind", "disease"), (2, 4, 1), ("2", "4", "1"), ("gene", 4, "disease")])
def test_columns_are_chosen_by_name_or_number(tmp_path, columns):
    path = put(tmp_path / "g.csv", "disease,gene,score,kind\nd,g,.5,k\ne,h,.6,k\n")
    rows, notes = read(path, columns=columns)
    assert rows == [("g", "k", "d"), ("h", "k", "e")]
    assert notes[-1] == (
        f"{path}: 4 columns, used as head 2 ('gene'), relation 4 ('kind'), tail 1 ('disease'); not used: 3 ('score')"
    )


def test_four_columns_say_which_were_used(tmp_path):
    path = put(tmp_path / "g.tsv", "a\tr\tb\tx\nb\tr\tc\ty\n")
    assert read(path) == ([("a", "r", "b"), ("b", "r", "c")],
                          [f"{path}: 4 columns, used as head 1, relation 2, tail 3; not used: 4"])  # fmt: skip
    weights = put(tmp_path / "w.tsv", "a\tr\t0.5\tb\nb\tr\t1.0\tc\n")
    assert read(weights) == ([("a", "r", "b"), ("b", "r", "c")],
                             [f"{weights}: 4 columns, used as head 1, relation 2, tail 4; not used: 3"])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("a\tr\tb\nc\tr\n", {}, r"g.txt, line 2: found 2 fields in 'c\\tr', expected 3 separated by tabs, as in "
                                r"line 1. "
                                r"Correct the line, or pass another `delimiter=CHARACTER`"),
        ("a,r,b\nc,r,d\ne\tr\tf\n", {}, r"g.txt, line 3: found 1 field in 'e\\tr\\tf', expected 3 separated by "
                                        r"commas, as in "
                                        r"line 1. It may be separated by tabs: write the same delimiter in all lines"),
        ("a,r,b\nc,r,d,e\nf,r,g\n", {}, "g.txt, line 2: found 4 fields in 'c,r,d,e', expected 3 separated by commas"),
        ("abc\ndef\n", {}, "g.txt: found no delimiter that gives 3 fields or more in 'abc'; tried tabs, commas, "
                           "semicolons"),
        ("a\tb\n", {"delimiter": "tab"}, "g.txt has 2 columns, expected at least 3: head, relation, tail"),
        ("a\n", {"delimiter": ","}, "g.txt has 1 column, expected at least 3"),
        ("a,r,b,c\n", {"columns": (1, 2, 5)}, "g.txt has 4 columns, so there is no column 5: count from 1"),
        ("a,r,b,c\n", {"columns": (0, 1, 2)}, "there is no column 0"),
        ("a,r,b\n", {"columns": ("x", 2, 3)}, "g.txt has no heading, so there is no column 'x': give its number "
                                              "from 1, or "),
        ("head,rel,tail\na,r,b\n", {"columns": ("head", "rell", "tail")}, "g.txt has no column 'rell'; did you mean "
                                                                          "'rel'"),
        ("a,a,b\nc,d,e\n", {"header": True, "columns": ("a", 2, 3)}, "has 2 columns named 'a': choose one by its "
                                                                     "number"),
        ("a,r,b\n", {"columns": (1, 1, 2)}, "must be different columns"),
        ("a\tr\tb\nc\t \td\n", {}, "g.txt, line 2: the relation is empty, expected a label. Fill it in, or remove "
                                   "the line"),
        ("a\tr\tb\n\t\t\n", {}, "g.txt, line 2: the head is empty"),
        ("a,r,b\n,,\n", {}, "g.txt, line 2: the head is empty"),
        ('a,r,b\nc,r,"two\nlines"\nd,r,e\n', {}, r"g.txt, line 2: the tail 'two\\nlines' has a tab, a line end or "
                                                 r"half a "),
        ('a,r,b\nc,r,"open\nd,r,e\n', {"delimiter": ","}, "g.txt, line 2: the quotes are wrong .*; or pass "
                                                          "`quotes=False`"),
        ('a,r,b\nc,r,"x"y\nd,r,e\n', {}, "g.txt, line 2: the quotes are wrong"),
        ("", {}, "g.txt is empty: expected a line with head, relation and tail"),
        ("\n \n", {}, "g.txt is empty"),
        ("head\trelation\ttail\n", {}, "g.txt has no triples"),
    ],
)  # fmt: skip
def test_errors_name_the_line(tmp_path, text, settings, message):
    with pytest.raises(DatasetError, match=message):
        read(put(tmp_path / "g.txt", text), **settings)


def test_an_error_far_down_names_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "_BLOCK", 3)
    monkeypatch.setattr(delimited, "SAMPLE", 5)
    lines = text_of(MANY, ",").splitlines()
    bad = [*lines[:30], "", "e1,r1", *lines[30:]]
    with pytest.raises(DatasetError, match=r"g.csv, line 32: found 2 fields in 'e1,r1'"):
        read(put(tmp_path / "g.csv", "\n".join(bad)))
    bad = [*lines[:30], "e1,\u00a0,e3", *lines[30:]]
    with pytest.raises(DatasetError, match=r"g.csv, line 31: the relation is empty"):
        read(put(tmp_path / "g.csv", "\n".join(bad)))
    assert read(put(tmp_path / "g.csv", "\n".join(lines)))[0] == MANY


def test_padded_labels_are_stripped_and_counted(tmp_path):
    path = put(tmp_path / "g.tsv", " a\tr\tb \na\tr \tc\n")
    assert read(path) == (
        [("a", "r", "b"), ("a", "r", "c")],
        ["removed the spaces around 3 labels; `strip=False` keeps them"],
    )
    assert read(path, strip=False)[0] == [(" a", "r", "b "), ("a", "r ", "c")]
