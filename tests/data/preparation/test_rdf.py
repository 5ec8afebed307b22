"""RDF: N-Triples and Turtle, with literals, blank nodes and invalid lines."""

import pytest

from relens.data.preparation.rdf import looks_like_ntriples
from relens.errors import DatasetError, MissingExtraError
from tests.reading import put, read

NT = """\
# a comment
<http://x.org/a> <http://x.org/r> <http://x.org/b> .

<http://x.org/b> <http://x.org/r> <http://x.org/\\u00e9> . # another
<http://x.org/a> <http://x.org/name> "the \\"first\\"" .
<http://x.org/a> <http://x.org/age> "old"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://x.org/a> <http://x.org/name> "eins"@de .
_:b0 <http://x.org/r> <http://x.org/a> .
<http://x.org/a> <http://x.org/r> _:b0 .
"""
TTL = """\
@prefix x: <http://x.org/> .
x:a x:r x:b ; x:name "a \\
".
x:b x:r [ x:r x:a ] .
x:b a x:Thing .
"""
A, R, B = "http://x.org/a", "http://x.org/r", "http://x.org/b"


def test_ntriples_keeps_triples_of_iris_and_counts_the_others(tmp_path):
    pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    for name in ("g.nt", "g.txt"):  # the first line of a triple tells
        path = put(tmp_path / name, NT)
        assert read(path) == (
            [(A, R, B), (B, R, "http://x.org/é")],
            [f"{path}: skipped 3 triples with a literal and 2 triples with a blank node, kept 2 triples of IRIs"],
        )
    assert read(put(tmp_path / "h.nt", NT.replace("\n", "\r\n")))[0] == [(A, R, B), (B, R, "http://x.org/é")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"literals": "error"}, r"g.nt, line 5: found a literal, which is no entity of a graph. Remove the triple, "
                                r"or pass "
                                r"`literals=skip` to count and skip such triples"),
        ({"blank_nodes": "error"}, "g.nt, line 8: found a blank node, .* `blank_nodes=skip`"),
        ({"columns": (1, 2, 3)}, "g.nt is RDF, which has no columns"),
    ],
)  # fmt: skip
def test_literals_and_blank_nodes_are_errors_on_request(tmp_path, settings, message):
    pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    with pytest.raises(DatasetError, match=message):
        read(put(tmp_path / "g.nt", NT), **settings)


@pytest.mark.parametrize(
    "line",
    ["<http://x.org/a> <http://x.org/r> <http://x.org/b>", "<http://x.org/a> <http://x.org/r> .", "a b c .",
     '"x" <http://x.org/r> <http://x.org/b> .', "<a> <r> <b> .", '<http://x.org/a> <http://x.org/r> "open .',
     "<http://x.org/a> <http://x.org/r> <http://x.org/b> . <http://x.org/c>", '<x:a> <x:r> "\\ud800"@@ .'],
)  # fmt: skip
def test_an_invalid_line_is_named(tmp_path, line):
    pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    with pytest.raises(DatasetError, match=r"g.nt, line 10: .* is not valid N-Triples \(.*\), expected <head>"):
        read(put(tmp_path / "g.nt", NT + line + "\n"))


@pytest.mark.parametrize(
    ("name", "where"), [("g.nt", "line 1"), ("g.ttl", "triple 1")],
)  # fmt: skip
def test_an_iri_with_other_characters_is_refused_without_a_warning(tmp_path, caplog, name, where):
    pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    text = "<http://x.org/a> <http//x.org/r> <http://x.org/b> <http://x.org/c> .\n"
    if name == "g.ttl":
        text = "<http://x.org/a> <http://x.org/r|s> <http://x.org/b> .\n"
    with pytest.raises(DatasetError, match=rf"{name}, {where}: '.*' is no IRI, which has no spaces"):
        read(put(tmp_path / name, text))
    assert not caplog.records


def test_turtle_that_is_nested_too_deeply_is_refused(tmp_path):
    pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    with pytest.raises(DatasetError, match=r"g\.ttl is not valid Turtle"):
        read(put(tmp_path / "g.ttl", "<x:a> <x:r> " + "[ <x:r> " * 5000 + "<x:b>" + " ]" * 5000 + " .\n"))


def test_turtle_is_read_with_prefixes_and_lists(tmp_path):
    pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    path = put(tmp_path / "g.ttl", TTL.replace("\\\n", ""))
    rows, notes = read(path)
    assert sorted(rows) == sorted(
        [(A, R, B), (B, "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "http://x.org/Thing")]
    )
    assert notes == [f"{path}: skipped 1 triple with a literal and 2 triples with a blank node, kept 2 triples of IRIs"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x:a x:r x:b .\n", 'g.ttl, line 1: not valid Turtle .*Prefix "x:" not bound'),
        ("@prefix x: <http://x.org/> .\n\nx:a x:r x:b .\nx:a x:r .\n", "g.ttl, line 4: not valid Turtle"),
        ("@prefix x: <http://x.org/> .\nx:a x:r x:b", "g.ttl, line 2: not valid Turtle"),
        ("@prefix x: <http://x.org/> .\nx:a x:r '''open\n\n", "g.ttl.* not valid Turtle"),
    ],
)
def test_invalid_turtle_names_the_line(tmp_path, text, message):
    pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    with pytest.raises(DatasetError, match=message):
        read(put(tmp_path / "g.ttl", text))


@pytest.mark.parametrize("length", range(1, len(TTL), 7))
def test_truncated_turtle_is_read_or_refused(tmp_path, length):
    pytest.importorskip("rdflib", reason="needs rdflib: pip install 'relens[rdf]'")
    path = put(tmp_path / "g.ttl", TTL.replace("\\\n", "")[:length])
    refused = ""
    try:
        read(path)
    except DatasetError as error:
        refused = str(error)
    assert refused.startswith(str(path)) or not refused


@pytest.mark.parametrize("name", ["g.nt", "g.ttl"])
def test_rdf_that_is_not_utf8_names_the_line(tmp_path, name):
    with pytest.raises(DatasetError, match=rf"{name}, line 2: found byte 0xe9, which is no UTF-8 text"):
        read(put(tmp_path / name, "<x:a> <x:r> <x:b> .\n<x:a> <x:r> <x:é> .\n", "latin-1"))


def test_without_rdflib_the_extra_is_named(tmp_path, monkeypatch):
    for module in ("rdflib", "rdflib.plugins.parsers.ntriples"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(MissingExtraError, match=r"reading RDF needs an optional dependency: pip .*'\.\[rdf\]'"):
        read(put(tmp_path / "g.nt", NT))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("<a:b> <c:d> <e:f> .", True),
        ('_:x <c:d> "text . more" .\n', True),
        ("<a:b>\t<c:d>\t<e:f>", False),
        ("a b c .", False),
    ],
)
def test_a_line_of_ntriples_is_recognised(line, expected):
    assert looks_like_ntriples(line) is expected
