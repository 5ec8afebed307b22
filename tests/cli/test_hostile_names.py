"""Names with control characters: people see escapes, programs get the exact names."""

import csv
import json
import logging
import re
import warnings
from io import StringIO
from xml.etree import ElementTree

import pytest

from relens.cli import console
from tests import simulated
from tests.cli.commands import Outcome, fail, relens, succeed
from tests.hostile import HOSTILE, raw
from tests.random_packs import changed
from tests.reports.pages import Page

SMALL = ("--preset", "demo", "--set", "dim=8", "--set", "steps=20", "--set", "validate_every=20", "--set", "batch=64")
FOLDER, RUN = "gra\x1b]0;ph\x07\u202e", "run\x1b[2J\x9b1m[bold]"
N_ENTITIES = 24
TABLES = (("evaluate", "--by", "relation", "--by", "group"), ("weights show",), ("compare", "mean", "dsc", "--spread"))


def entity(number: int) -> str:
    return f"{HOSTILE[number % len(HOSTILE)]} {number}"


ENTITIES = tuple(map(entity, range(N_ENTITIES)))


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A folder of triples in which every name is hostile."""
    folder = tmp_path_factory.mktemp("hostile") / FOLDER
    folder.mkdir()
    facts = [
        (entity(head), relation, entity((head + number + 1) % N_ENTITIES))
        for number, relation in enumerate(HOSTILE)
        for head in range(N_ENTITIES)
    ]
    for split, rows in {"train": facts, "valid": facts[::5], "test": facts[2::5]}.items():
        text = "".join("\t".join(row) + "\n" for row in rows)
        (folder / f"{split}.txt").write_text(text, encoding="utf-8", newline="")
    names = "".join(f"{label}\tname of {label}\n" for label in ENTITIES)
    (folder / "labels.tsv").write_text(names, encoding="utf-8", newline="")
    return folder


@pytest.fixture(scope="module")
def run(graph):
    pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    path = graph.parent / RUN
    outcome = succeed("run", graph, "--models", "transe,complex", "--run", path, "--device", "cpu", *SMALL)
    assert_visible(outcome)
    assert r"gra\x1b]0;ph\x07\u202e" in outcome.err
    return path


def assert_visible(outcome: Outcome) -> None:
    assert raw(outcome.out) == []
    assert raw(outcome.err) == []


def words(run, arguments):
    """Return a command line; RUN follows the verb."""
    verb, *options = arguments
    return (*verb.split(), run, *options)


def test_data_show(graph):
    outcome = succeed("data", "show", graph)
    assert_visible(outcome)
    assert r"clear\x1b[2J\x1b[H" in outcome.out
    assert "[bold]x[/bold]" in outcome.out
    found = succeed("data", "show", graph, "--json")
    assert_visible(found)
    assert sorted(row["relation"] for row in found.json["relations"]) == sorted(HOSTILE)
    assert found.json["name"] == FOLDER


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
@pytest.mark.parametrize("arguments", TABLES, ids=lambda arguments: arguments[0])
def test_tables_for_people_show_escapes(run, arguments, form):
    outcome = succeed(*words(run, arguments), "--format", form, columns=200)
    assert_visible(outcome)
    plain = outcome.out if form == "text" else re.sub(r"\\textbackslash\{\}|\\\\", r"\\", outcome.out)
    assert r"\x1b" in plain
    assert "\\u202eevil" in plain


@pytest.mark.parametrize("arguments", TABLES, ids=lambda arguments: arguments[0])
def test_tables_for_programs_are_exact(run, arguments):
    found = succeed(*words(run, arguments), "--format", "csv").out
    rows = filter(None, csv.reader(StringIO(found, newline="")))
    labels = {row[0].removesuffix(" [tail]").removesuffix(" [head]") for row in rows}
    assert set(HOSTILE) <= labels
    found = succeed(*words(run, arguments), "--json")
    assert_visible(found)
    assert labels_in(found.json) >= set(HOSTILE)


def labels_in(value):
    """Return all labels of groups and relations anywhere in a JSON value."""
    if isinstance(value, dict):
        return {key.removesuffix(" [tail]").removesuffix(" [head]") for key in value}.union(
            *map(labels_in, value.values())
        )
    return set().union(*map(labels_in, value)) if isinstance(value, list) else set()


def test_predictions(run, tmp_path):
    asked = ("--head", ENTITIES[0], "--relation", HOSTILE[4], "--device", "cpu")
    outcome = succeed("predict", run, *asked, "--top", N_ENTITIES, columns=300)
    assert_visible(outcome)
    assert all(part in outcome.out for part in (r"\x1b]0;owned\x07", r"\u202eevil", "[link=https://example.org]y"))
    found = succeed("predict", run, *asked, "--top", N_ENTITIES, "--json")
    assert_visible(found)
    assert found.json["anchor"] == ENTITIES[0]
    assert {answer["entity"] for answer in found.json["answers"]} <= set(ENTITIES)
    assert all(answer["name"] == f"name of {answer['entity']}" for answer in found.json["answers"])
    questions = tmp_path / "questions.tsv"
    questions.write_text(f"{ENTITIES[0]}\t{HOSTILE[4]}\ttail\n", encoding="utf-8", newline="")
    lines = succeed("predict", run, "--queries", questions, "--device", "cpu", "--json")
    assert_visible(lines)
    assert [json.loads(line)["relation"] for line in lines.out.splitlines()] == [HOSTILE[4]]
    table = succeed("predict", run, "--queries", questions, "--device", "cpu").out
    assert {row[0] for row in list(csv.reader(StringIO(table, newline=""), dialect="excel-tab"))[1:]} == {ENTITIES[0]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--head", "clear\x1b[2J", "--relation", HOSTILE[0]), r"unknown entity 'clear\x1b[2J'; did you mean "),
        (("--head", ENTITIES[0], "--relation", "bidi\u202eevi"), r"unknown relation 'bidi\u202eevi'; did you mean "),
        (("--head", ENTITIES[0], "--relation", HOSTILE[0], "--weights", "x\x07"), r"'x\x07'"),
    ],
)
def test_unknown_names(run, arguments, message):
    assert_visible(fail(2, message, "predict", run, *arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ("data", "show", "no\x1b[2Jwhere\udcff"),
        ("evaluate", "no\x1b[2Jwhere\nat all\x9b"),
        ("no\x1b[2Jverb",),
        ("evaluate", "--no\x1b[2Joption"),
        ("evaluate", "x", "--split", "no\x1b[2Jsplit\udcff"),
        ("weights", "export", "x", "-o", "no\x1b[2J\x07.txt"),
    ],
)
def test_errors(arguments):
    outcome = relens(*arguments)
    assert outcome.code == 2
    assert_visible(outcome)


def test_the_report_is_sound_and_shows_escapes(run):
    outcome = succeed("report", run)
    assert_visible(outcome)
    folder = run / "report"
    for file in (folder / "figures").glob("*.svg"):
        ElementTree.fromstring(file.read_bytes())
    text = (folder / "index.html").read_text(encoding="utf-8", errors="strict")
    assert raw(text) == []
    for svg in re.findall("<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
    page = Page.read(folder / "index.html")
    rows = page.tables["All relations, both directions"][1:]
    assert {row[0] for row in rows} >= {r"clear\x1b[2J\x1b[H", "[bold]x[/bold]", r"not xml \ufffe\uffff & <b>z</b>"}
    assert r"run\x1b[2J\x9b1m[bold]" in page.text


def test_names_of_models_and_of_the_data_set(tmp_path):
    """Packed ranks of a program may name models as it likes."""
    models = (HOSTILE[0], HOSTILE[4], "a\ttab\nand a line")
    valid, test = (changed(simulated.packed(split), models=models) for split in ("valid", "test"))
    run = simulated.write_run(tmp_path / "run", valid, test)
    for command in (("search", run), ("compare", run, "mean", "--spread"), ("ranks", "show", run), ("evaluate", run)):
        assert_visible(succeed(*command))
    assert r"a\ttab\nand a line" in succeed("weights", "show", run, "--format", "markdown").out.replace(r"\\", "\\")
    assert_visible(succeed("report", run))
    for file in (run / "report" / "figures").glob("*.svg"):
        ElementTree.fromstring(file.read_bytes())
    exported = succeed("ranks", "export", run).out
    assert next(csv.reader(StringIO(exported, newline="")))[4:] == list(models)


def test_logs_and_warnings(capsys):
    console.make_logs_visible()
    record = logging.makeLogRecord({"msg": "%s failed", "args": ("model\x1b[2J\u202e",), "levelno": logging.WARNING})
    logging.lastResort.handle(record)  # Python's handler where no other is installed; pytest installs some
    assert capsys.readouterr().err == "model\\x1b[2J\\u202e failed\n"
    shown = warnings.formatwarning(UserWarning("few queries of \x1b[2J"), UserWarning, "file.py", 1)
    assert shown.splitlines()[0] == r"file.py:1: UserWarning: few queries of \x1b[2J"
