"""Pickles of plain data are read as the pickle module reads them; small ones that ask for the world are refused."""

import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.data import pickles
from relens.data.pickles import PickleReader, StandIn
from tests.patience import HANG

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


def double(text: str) -> str:
    return text + text


def read(content: bytes) -> Any:
    def admitted(module: str, name: str) -> StandIn:
        assert (module, name) == ("m", "double")
        return double

    def stored() -> NoReturn:
        raise KeyError("stored")

    return PickleReader(io.BytesIO(content), len(content), admitted, stored).load()


@given(PLAIN, st.sampled_from([2, 3, 4]))
def test_plain_values_are_read_as_by_pickle(value: object, protocol: int) -> None:
    content = pickle.dumps(value, protocol)
    if protocol > 2 or not any(module in content for module in (b"_codecs", b"__builtin__")):  # bytes are calls
        assert read(content) == value == pickle.loads(content)


def test_pickles_in_one_file_are_read_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "CHUNK_BYTES", 7)  # values reach over the ends of chunks
    values = [{"a": "long enough" * 3}, [b"x" * 50, 2.5], ("end", -3)]
    content = b"".join(pickle.dumps(value, 4) for value in values)
    reader = PickleReader(io.BytesIO(content), len(content), lambda module, name: double, lambda: None)
    assert [reader.load() for _ in values] == values


TUPLES = b")" + b"q\x00h\x00\x86" * 60
"""A tuple of two, each the same tuple of two, and so on: 2^60 parts in 300 bytes."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02}" + TUPLES + b"K\x01s.", "a dictionary with a key that is no text or number"),
        (b"\x80\x02" + TUPLES + b".", "it repeats a container"),
        (b"\x80\x02]]" + b".", "ends with 2 values"),
        (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "more than 100 containers inside each other"),
        (b"\x80\x02]q\x00h\x00a.", "it repeats a container"),
        (b"\x80\x04B\xff\xff\xff\x7f.", "ends too early: 2,147,483,647 bytes expected, 1 left"),
        (b"\x80\x04X\xff\xff\xff\xffabc.", "ends too early: 4,294,967,295 bytes expected, 4 left"),
        (b"\x80\x02\x8b\x00\x01\x00\x00" + b"\x01" * 256 + b".", "a whole number of 256 bytes"),
        (b"\x80\x02cm\ndouble\nN}K\x01K\x02sb.", "it changes something that is no array"),
        (b"\x80\x02cm\ndouble\nN}X\x01\x00\x00\x00aNs\x86b.", "it changes something that is no array"),
        (b"\x80\x02cm\ndouble\n.", "a name in place of a value"),
        (b"\x80\x02K\x01)R.", "calls something that is no function"),
        (b"\x80\x02c" + b"m" * 300 + b"\n", "a name of more than 200 bytes"),
        (b"\x80\x02(\x81.", r"the operation b'\\x81'"),
        (b"\x80\x02K\x01t.", "lacks a mark"),
        (b"\x80\x02(\x85.", "lacks a value"),
        (b"\x80\x02K\x01K\x02a.", "adds items to something that is no list"),
        (b"\x80\x02K\x01K\x02K\x03s.", "adds entries to something that is no dictionary"),
        (
            b"\x80\x02](X\x90\x01\x00\x00" + b"a" * 400 + b"q\x00" + b"cm\ndouble\nq\x01h\x00\x85R"
            + b"h\x01h\x00\x85R" * 50 + b"e.",
            "it repeats a text in calls",
        ),
    ],
    ids=range(19),
)  # fmt: skip
def test_what_plain_data_do_not_need_is_refused(content: bytes, message: str) -> None:
    with pytest.raises((pickle.UnpicklingError, EOFError), match=message):
        read(content)


def test_a_memo_number_costs_no_memory() -> None:
    """In a process that may take 1 GiB more: the pickle module asks for 4 GiB."""
    code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_pickles import read
import pickle
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30,) * 2)
content = b"\\x80\\x02Nr\\xff\\xff\\xff\\x0f."
print(read(content))
try:
    pickle.loads(content)
except MemoryError:
    print("too much for pickle")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG)
    assert done.stdout.split("\n")[:2] == ["None", "too much for pickle"]
