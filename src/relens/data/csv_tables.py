"""Comma-separated text, plain or gzip: the small tables beside OGB's triples."""

import csv
from pathlib import Path

from relens.data.tsv import read_lines
from relens.errors import DatasetError


def read_table(path: Path) -> list[list[str]]:
    """Return the rows of a table; empty lines are skipped."""
    return [row for row in csv.reader(read_lines(path)) if row]


def read_numbered(path: Path) -> list[str]:
    """Return the names in a table of two columns, number and name, under one line of headings, by number.

    What has no name is called by its number.
    """
    rows = read_table(path)[1:]
    names: dict[int, str] = {}
    for line, row in enumerate(rows, start=2):
        if len(row) != 2 or not row[0].strip().isdecimal():
            raise DatasetError(f"{path}, row {line}: found {row}, expected a number and a name")
        names[int(row[0])] = row[1].strip() or row[0].strip()
    if len(names) != len(rows) or sorted(names) != list(range(len(rows))):
        raise DatasetError(f"{path} has {len(rows)} rows and {len(names)} different numbers, expected 0, 1, 2, …")
    return [names[number] for number in range(len(rows))]
