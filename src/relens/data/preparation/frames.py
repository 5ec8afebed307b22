"""Tables with named columns: Parquet files, and frames of pandas or of a library with the same interface."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

from relens.data.preparation.columns import Columns, named_columns
from relens.data.preparation.facts import Block, Encoder, Facts
from relens.data.preparation.settings import ReadSettings
from relens.errors import DatasetError, MissingExtraError

SAMPLE = 100
"""Rows that decide which columns hold weights."""
_BLOCK = 2**11


def is_frame(value: object) -> bool:
    """Say whether a value is a frame: it has named columns that can be looked up."""
    return hasattr(value, "columns") and hasattr(value, "__getitem__") and hasattr(value, "shape")


def read_frame(frame: Any, name: str, settings: ReadSettings, encoder: Encoder, notes: list[str]) -> Facts:
    """Read a frame; ``name`` is that in errors. Values become texts."""
    names = list(map(str, frame.column_names if hasattr(frame, "column_names") else frame.columns))
    series = [_values(frame, i) for i in range(len(names))]
    sample = [
        [str(value) for value in row] for row in zip(*(list(islice(iter(s), SAMPLE)) for s in series), strict=True)
    ]
    columns = _columns(names, sample, settings, name)
    notes += columns.notes
    return encoder.collect(name, "row", _frame_blocks(name, [iter(series[i]) for i in columns.chosen]))


def read_parquet(path: Path, content: bytes, settings: ReadSettings, encoder: Encoder, notes: list[str]) -> Facts:
    """Read a Parquet file, some rows at a time."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError("reading Parquet", "parquet") from error
    try:
        file = parquet.ParquetFile(BytesIO(content))
        names = list(file.schema_arrow.names)
        head = next(file.iter_batches(batch_size=SAMPLE), None)
        sample = [] if head is None else [[str(value) for value in row.values()] for row in head.to_pylist()]
        columns = _columns(names, sample, settings, str(path))
        notes += columns.notes
        chosen = [names[i] for i in columns.chosen]
        batches = file.iter_batches(batch_size=_BLOCK, columns=chosen)
        return encoder.collect(str(path), "row", _parquet_blocks(str(path), batches, chosen))
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not a readable Parquet file ({error}). Write it again.") from error


def _columns(names: list[str], sample: list[list[str]], settings: ReadSettings, source: str) -> Columns:
    if settings.header is False:
        raise DatasetError(f"{source} has named columns, so `header=False` has no meaning: leave it out")
    if len(set(names)) < len(names):
        raise DatasetError(f"{source} has two columns of one name among {', '.join(names)}: rename one")
    return named_columns(names, sample, settings, source)


def _values(frame: Any, position: int) -> Any:
    """Return a column of a frame by its position; an Arrow table has values of its own type."""
    if hasattr(frame, "column_names"):
        return frame.column(position).to_pylist()
    return frame.iloc[:, position] if hasattr(frame, "iloc") else frame[list(frame.columns)[position]]


def _frame_blocks(source: str, columns: Sequence[Iterator[Any]]) -> Iterator[Block]:
    """Yield the columns as texts, some rows at a time; rows are counted from 1."""
    begin = 1
    while some := list(islice(zip(*columns, strict=True), _BLOCK)):
        yield _block(source, begin, list(zip(*some, strict=True)))
        begin += len(some)


def _parquet_blocks(source: str, batches: Iterator[Any], chosen: list[str]) -> Iterator[Block]:
    """Yield the chosen columns as texts, some rows at a time."""
    begin = 1
    for batch in batches:
        if batch.num_rows:
            yield _block(source, begin, [batch.column(name).to_pylist() for name in chosen])
        begin += batch.num_rows


def _block(source: str, begin: int, columns: list[Sequence[Any]]) -> Block:
    """Return values as texts. A missing value is an error that names its row."""
    for values, role in zip(columns, ("head", "relation", "tail", "time"), strict=False):
        for row, value in enumerate(values):
            if value is None or value != value:
                raise DatasetError(
                    f"{source}, row {begin + row:,}: the {role} is missing. Fill it in, or drop the row."
                )
    texts = tuple([value if isinstance(value, str) else str(value) for value in values] for values in columns)
    return Block(range(begin, begin + len(texts[0])), texts)
