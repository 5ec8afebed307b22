"""Times of facts: numbers, or dates as in ISO 8601."""

import math
import re
from datetime import UTC, datetime

_MONTH = re.compile(r"\d{4}-\d{2}")


class Times(dict[str, float]):
    """The number of each time as it stands in a source; later times have higher numbers.

    All times of a source are numbers (such as 2014), or all are dates (such as 2014-03-01 or 2014-03-01T12:30:00Z). A
    date without a zone counts as UTC. An unknown or mixed form raises a ``ValueError`` with a sentence and the text.
    """

    def __init__(self) -> None:
        super().__init__()
        self._form = ""

    def __missing__(self, raw: str) -> float:
        text = raw.strip()
        value, form = _number(text), "a number"
        if value is None:
            value, form = _date(text), "a date"
        if value is None:
            raise ValueError(
                f"found the time {raw!r}, expected a number or a date such as 2014-03-01. Correct it.", raw
            )
        if self._form and form != self._form:
            raise ValueError(f"found the time {raw!r}, {form}, after {self._form}: write all of them alike.", raw)
        self._form = form
        self[raw] = value
        return value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _date(text: str) -> float | None:
    try:
        found = datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text)
        zoned = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        return (zoned - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
