"""The tables and figures of the pages are those of the committed results; what stands around them is free."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def pages() -> Iterator[ModuleType]:
    """The program that fills them, imported as it runs: with its own folder on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield import_module("pages")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_mark_is_up_to_date(pages: ModuleType, page: Path) -> None:
    found = pages.fill(page.read_text(encoding="utf-8"), page.name)
    assert found.wrong + found.outdated == []


@pytest.mark.parametrize("name", ["training-cpu training", "training-h200 ranking"])
def test_a_changed_table_is_filled_and_reported_as_outdated(pages: ModuleType, name: str) -> None:
    page = f"before\n\n<!-- table pykeen {name} -->\n| 1 |\n<!-- /table -->\n\nafter\n"
    found = pages.fill(page, "page.md")
    assert found.outdated == [f"page.md:3: table pykeen {name}: out of date"]
    assert found.text.startswith(f"before\n\n<!-- table pykeen {name} -->\n| ")
    assert found.text.endswith("|\n<!-- /table -->\n\nafter\n")
    assert pages.fill(found.text, "page.md") == (found.text, [], [])


def test_a_changed_figure_is_filled_and_the_sentence_is_left_alone(pages: ModuleType) -> None:
    found = pages.fill("It is <!-- figure paper wn18rr dsc -->.6<!-- /figure -->, or\nnot.", "page.md")
    assert found == (
        "It is <!-- figure paper wn18rr dsc -->.5201<!-- /figure -->, or\nnot.",
        ["page.md:1: figure paper wn18rr dsc: out of date"],
        [],
    )


def test_marks_may_be_broken_into_lines(pages: ModuleType) -> None:
    page = "It is <!-- figure paper\nwn18rr dsc -->\n.5201\n<!-- /figure --> there."
    assert pages.fill(page, "page.md") == (page, [], [])


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("a <!-- figure nothing -->1<!-- /figure -->", ["1: figure nothing: cannot be filled: unknown name 'nothing'"]),
        ("<!-- table nothing -->\n<!-- /table -->", ["1: table nothing: cannot be filled: unknown name 'nothing'"]),
        ("a <!-- figure -->1<!-- /figure -->", ["1: figure : cannot be filled: unknown name ''"]),
        (
            "\n<!-- table results -->\n<!-- /table -->",
            ["2: table results: cannot be filled: missing a required argument"],
        ),
        ("<!-- table results x -->\n<!-- /table -->", ["1: table results x: cannot be filled: 'x'"]),
        ("a <!-- figure shortfall -->1", ["1: figure shortfall: not closed"]),
        ("<!-- table demo -->\n<!-- /figure -->", ["1: table demo: not closed", "2: /figure: closes nothing"]),
        ("<!-- table demo -->\n\n<!-- table ties -->\n", ["1: table demo: not closed", "3: table ties: not closed"]),
        ("a\n<!-- /table -->", ["2: /table: closes nothing"]),
        ("a\n- <!-- figure paper wn18rr dsc -->.5201<!-- /figure -->", ["2: figure paper wn18rr dsc: begins a line"]),
        (
            "a <!-- figure shortfall -- -->1<!-- /figure -->",
            ["1: figure shortfall --: has two", "1: figure shortfall --"],
        ),
    ],
)
def test_marks_that_cannot_be_filled_are_reported(pages: ModuleType, page: str, said: list[str]) -> None:
    found = pages.fill(page, "page.md")
    assert found.text == page
    assert len(found.wrong) == len(said)
    for line, beginning in zip(found.wrong, said, strict=True):
        assert line.startswith(f"page.md:{beginning}")


def test_the_program_checks_and_fills(
    pages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("It is <!-- figure paper wn18rr dsc -->.6<!-- /figure -->.")
    monkeypatch.setattr(pages, "pages", lambda: [page])

    def run(*options: str) -> int:
        monkeypatch.setattr(sys, "argv", ["pages.py", *options])
        with pytest.raises(SystemExit) as ended:
            pages.main()
        return int(ended.value.code or 0)

    assert run("--check") == 1
    assert "page.md:1: figure paper wn18rr dsc: out of date" in capsys.readouterr().err
    assert run() == 0
    assert page.read_text() == "It is <!-- figure paper wn18rr dsc -->.5201<!-- /figure -->."
    assert run("--check") == 0
    page.write_text("A <!-- figure shortfall -->")
    assert run() == 1
    assert page.read_text() == "A <!-- figure shortfall -->"
