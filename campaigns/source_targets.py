"""Readers of foreign graphs, which ``relens data prepare`` takes, as targets of the campaign.

Parquet, RDF and Zstandard need extras: without them, their readers refuse every input.
"""

import gzip
import io
import tempfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from campaigns.target import Files, Target

ROWS = [(f"e{i}", f"r{i % 2}", f"e{(3 * i + 1) % 7}") for i in range(30)]


def targets() -> list[Target]:
    """Return the targets of this module."""
    found = [Target("source: table", _tables, _read, (b'"', b";", b"|", b"\\", b"2014-03-01"), bombs=_table_bombs)]
    if find_spec("rdflib"):
        found.append(Target("source: RDF", _rdf, _read, (b"<", b"_:b0", b'"a"@en', b"\\u00e9", b"@prefix", b".")))
    if find_spec("pyarrow"):
        found.append(Target("source: Parquet", _parquet, _read, (b"PAR1",)))
    return found


def _read(folder: Path) -> object:
    from relens.data.preparation.prepare import prepare_data

    files = sorted(folder.iterdir())
    with tempfile.TemporaryDirectory() as place:
        # A changed input may have another number of files.
        source = files[0] if len(files) == 1 else folder
        made = prepare_data(source, Path(place) / "prepared", valid=2, test=2, allow_unseen=True)
        return made.dataset.counts, made.notes, made.check.warnings


def _joined(delimiter: str, rows: Sequence[Sequence[str]], *heading: str) -> bytes:
    return "".join(delimiter.join(row) + "\n" for row in ([heading] if heading else []) + list(rows)).encode()


def _tables() -> Sequence[Files]:
    dated = [(*row, f"{number / 4}", f"2014-03-{number + 1:02d}") for number, row in enumerate(ROWS)]
    plain = _joined("\t", ROWS)
    return [
        {"a.tsv": plain},
        {"a.csv": _joined(",", [(f'"{h}, the ""first"""', r, t) for h, r, t in ROWS], "head", "relation", "tail")},
        {"a.txt": _joined(";", dated, "subject", "predicate", "object", "weight", "date")},
        {"a.tsv.gz": gzip.compress(plain, mtime=0)},
    ]


def _table_bombs() -> Mapping[str, Files]:
    return {
        "a line of 30 million characters": {"a.csv": b"a" * 30_000_000},
        "a quote that never ends": {"a.csv": b'a,b,"' + b"c\n" * 5_000_000},
        "a million delimiters": {"a.csv": b"," * 1_000_000 + b"\n"},
        "a gigabyte of line ends": {"a.tsv.gz": gzip.compress(b"\n" * 2**30, 9, mtime=0)},
        "a heading of a million names": {"a.csv": ",".join(f"c{i}" for i in range(10**6)).encode() + b"\n1,2,3\n"},
    }


def _rdf() -> Sequence[Files]:
    lines = "".join(f"<http://x/{h}> <http://x/{r}> <http://x/{t}> .\n" for h, r, t in ROWS)
    turtle = "@prefix x: <http://x/> .\n" + "".join(f"x:{h} x:{r} x:{t}, _:b, 'a' .\n" for h, r, t in ROWS)
    return [{"a.nt": lines.encode()}, {"a.ttl": turtle.encode()}]


def _parquet() -> Sequence[Files]:
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    file = io.BytesIO()
    heads, relations, tails = zip(*ROWS, strict=True)
    parquet.write_table(pyarrow.table({"head": heads, "relation": relations, "tail": tails}), file)
    return [{"a.parquet": file.getvalue()}]
