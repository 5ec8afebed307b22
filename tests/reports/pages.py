"""Reading a report's page as a reader does: its tables, its text, its parts."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path


@dataclass
class Tag:
    name: str
    attributes: dict[str, str | None]


@dataclass
class Page(HTMLParser):
    """The content of a page.

    Attributes:
        tags: every start tag, in order.
        tables: by caption, rows of cell texts, the heading row first.
        text: everything a reader sees, joined by single spaces.
    """

    tags: list[Tag] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._rows: list[list[str]] | None = None
        self._caption = ""
        self._inside = ""

    @classmethod
    def read(cls, path: Path) -> "Page":
        page = cls()
        page.feed(path.read_text(encoding="utf-8"))
        page.close()
        page.text = " ".join(page.text.split())
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(Tag(tag, dict(attrs)))
        self._inside = tag
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr" and self._rows is not None:
            self._rows.append([])
        elif tag in ("td", "th") and self._rows is not None:
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            assert self._rows is not None
            self.tables[" ".join(self._caption.split())] = self._rows
            self._rows = None
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            return
        self.text += " " + data
        if self._inside == "caption":
            self._caption += data
        elif self._rows and self._rows[-1]:
            self._rows[-1][-1] += data.strip("\n")

    def with_attribute(self, name: str) -> list[str]:
        return [tag.attributes[name] or "" for tag in self.tags if name in tag.attributes]
