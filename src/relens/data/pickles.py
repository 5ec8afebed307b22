"""Read pickles of plain values, without calling anything but a few given stand-ins.

``pickle.Unpickler`` bounds nothing: 42 bytes can make it take gigabytes, and 200 bytes keep it busy for ever. This
reader knows the operations that plain data need, and what it makes has no more parts and bytes than the pickle.
"""

import struct
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any

CHUNK_BYTES = 2**22
LONGEST_NAME = 200
"""Most characters of the name of a module, a class or a function."""
LONGEST_NUMBER = 16
"""Most bytes of a whole number."""
DEEPEST = 100
"""Most containers inside each other."""
_MARK = object()
_KEYS = (str, bytes, int, float, type(None))
_PLAIN = (*_KEYS, bytearray)

StandIn = Callable[..., Any]


class Stateful:
    """A stand-in for an object that a pickle gives a state."""

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Take the state."""
        raise NotImplementedError

    def value(self) -> Any:
        """Return the plain value that stands for the object in what is read."""
        raise NotImplementedError


class _Name:
    """An admitted name in a pickle."""

    def __init__(self, stand_in: StandIn) -> None:
        self.stand_in = stand_in


class PickleReader:
    """Reads the pickles in a file, one after the other.

    Args:
        file: where the next pickle begins.
        size: the number of bytes left in the file.
        admitted: returns the stand-in for the name of a class or a function, or raises an error.
        stored: raises an error that says that a value is stored outside of the pickle.
    """

    def __init__(
        self, file: IO[bytes], size: int, admitted: Callable[[str, str], StandIn], stored: Callable[[], Any]
    ) -> None:
        self._file, self._left, self._size = file, size, size
        self.admitted, self.stored = admitted, stored
        self._chunk, self._at, self._made = b"", 0, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Return the value of the next pickle. Byte strings of megabytes are ``bytearray``, held in memory once."""
        self.stack, self.memo = [], {}
        take, operations = self.take, _OPERATIONS
        while (code := take(1)) != b".":
            operation = operations.get(code)
            if operation is None:
                raise UnpicklingError(f"it has the operation {code!r}, which plain data do not need")
            operation(self)
        if len(self.stack) != 1:
            raise UnpicklingError(f"it ends with {len(self.stack)} values, expected one")
        return _Plain(self._size).of(self.stack.pop())

    def take(self, count: int) -> bytes:
        """Return the next bytes of the file."""
        end = self._at + count
        if end > len(self._chunk):
            return self._take_more(count)
        found = self._chunk[self._at : end]
        self._at = end
        return found

    def _take_more(self, count: int) -> bytes:
        """Return the next bytes, where they reach beyond the current chunk."""
        begun = self._chunk[self._at :]
        missing = count - len(begun)
        if missing > self._left:
            raise EOFError(f"it ends too early: {count:,} bytes expected, {len(begun) + self._left:,} left")
        if missing > CHUNK_BYTES:
            found = bytearray(count)
            found[: len(begun)] = begun
            self._chunk, self._at = b"", 0
            view = memoryview(found)
            for begin in range(len(begun), count, CHUNK_BYTES):
                view[begin : begin + CHUNK_BYTES] = self._read(min(CHUNK_BYTES, count - begin))
            return found  # type: ignore[return-value]
        self._chunk, self._at = self._read(min(CHUNK_BYTES, self._left)), missing
        return begun + self._chunk[:missing]

    def _read(self, count: int) -> bytes:
        found = self._file.read(count)
        if len(found) != count:
            raise EOFError(f"it ends too early: {count:,} bytes expected, {len(found):,} left")
        self._left -= count
        return found

    def take_number(self, width: int) -> int:
        """Return the next bytes as a number of at least 0, least byte first."""
        return int.from_bytes(self.take(width), "little")

    def take_line(self) -> str:
        """Return the next bytes up to a line end as a name."""
        found = bytearray()
        while (byte := self.take(1)) != b"\n":
            found += byte
            if len(found) > LONGEST_NAME:
                raise UnpicklingError(f"it has a name of more than {LONGEST_NAME} bytes")
        return found.decode()

    def pop(self) -> Any:
        """Take the last value from the stack."""
        value = self.stack.pop()
        if value is _MARK:
            raise UnpicklingError("it lacks a value")
        return value

    def pop_to_mark(self) -> list[Any]:
        """Take all values behind the last mark from the stack."""
        stack = self.stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise UnpicklingError("it lacks a mark")
        found = stack[at + 1 :]
        del stack[at:]
        return found

    def call(self, name: Any, arguments: Any) -> Any:
        """Call a stand-in. All texts and byte strings that calls return have fewer bytes than the file."""
        if not isinstance(name, _Name) or type(arguments) is not tuple:
            raise UnpicklingError("it calls something that is no function")
        made = name.stand_in(*(entry.stand_in if isinstance(entry, _Name) else entry for entry in arguments))
        if isinstance(made, str | bytes):
            self._made += len(made)
            if self._made > self._size:
                raise UnpicklingError("it repeats a text in calls, so that it would grow")
        return made

    def name(self, module: Any, name: Any) -> _Name:
        """Return an admitted name."""
        if not isinstance(module, str) or not isinstance(name, str) or len(module) + len(name) > LONGEST_NAME:
            raise UnpicklingError("it has a name that is no short text")
        return _Name(self.admitted(module, name))


def _add_entries(target: Any, entries: list[Any]) -> None:
    """Add keys and values to a dictionary. Keys are plain values, or flat tuples of them: hashing them is cheap."""
    if type(target) is not dict or len(entries) % 2:
        raise UnpicklingError("it adds entries to something that is no dictionary")
    for key, value in zip(entries[::2], entries[1::2], strict=True):
        parts = key if type(key) is tuple else (key,)
        if not all(isinstance(part, _KEYS) for part in parts):
            raise UnpicklingError("it has a dictionary with a key that is no text or number")
        target[key] = value


def _add_items(target: Any, items: list[Any]) -> None:
    if type(target) is not list:
        raise UnpicklingError("it adds items to something that is no list")
    target += items


def _set_state(target: Any, state: Any) -> None:
    if not isinstance(target, Stateful) or type(state) is not tuple:
        raise UnpicklingError("it changes something that is no array")
    target.set_state(state)


def _signed(raw: bytes) -> int:
    if len(raw) > LONGEST_NUMBER:
        raise UnpicklingError(f"it has a whole number of {len(raw):,} bytes, expected at most {LONGEST_NUMBER}")
    return int.from_bytes(raw, "little", signed=True)


def _unsigned(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _ascii(raw: bytes) -> str:
    return raw.decode("ascii")


def _same(raw: bytes) -> bytes:
    return raw


_Operation = Callable[[PickleReader], None]


class _Plain:
    """Puts plain values in place of stand-ins. A container that a value holds many times counts each time."""

    def __init__(self, most_parts: int) -> None:
        self._left = most_parts

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return a value with plain values in place of stand-ins, also in containers."""
        if isinstance(value, Stateful):
            return value.value()
        if isinstance(value, _PLAIN):
            return value
        if not isinstance(value, dict | list | tuple):
            raise UnpicklingError("it has a name in place of a value")
        if depth == DEEPEST:
            raise UnpicklingError(f"it has more than {DEEPEST} containers inside each other")
        self._left -= len(value)
        if self._left < 0:
            raise UnpicklingError("it repeats a container, so that it would grow without bound")
        if isinstance(value, dict):
            return {key: self.of(entry, depth + 1) for key, entry in value.items()}
        if all(isinstance(entry, _PLAIN) for entry in value):
            return value
        return type(value)(self.of(entry, depth + 1) for entry in value)


def _ahead(width: int, convert: Callable[[bytes], Any]) -> _Operation:
    """Return an operation that pushes a value of a fixed number of bytes."""
    return lambda reader: reader.stack.append(convert(reader.take(width)))


def _sized(width: int, convert: Callable[[bytes], Any]) -> _Operation:
    """Return an operation that pushes a value after its number of bytes."""
    return lambda reader: reader.stack.append(convert(reader.take(reader.take_number(width))))


def _skip(count: int) -> _Operation:
    def skip(reader: PickleReader) -> None:
        reader.take(count)

    return skip


def _push(make: Callable[[], Any]) -> _Operation:
    return lambda reader: reader.stack.append(make())


def _put(width: int) -> _Operation:
    """Return an operation that keeps the last value under a number."""

    def put(reader: PickleReader) -> None:
        reader.memo[reader.take_number(width)] = reader.stack[-1]

    return put


def _get(width: int) -> _Operation:
    return lambda reader: reader.stack.append(reader.memo[reader.take_number(width)])


def _tuple(count: int) -> _Operation:
    return lambda reader: reader.stack.append(tuple([reader.pop() for _ in range(count)][::-1]))


def _memoize(reader: PickleReader) -> None:
    reader.memo[len(reader.memo)] = reader.stack[-1]


def _append(reader: PickleReader) -> None:
    item = reader.pop()
    _add_items(reader.stack[-1], [item])


def _appends(reader: PickleReader) -> None:
    items = reader.pop_to_mark()
    _add_items(reader.stack[-1], items)


def _setitem(reader: PickleReader) -> None:
    value, key = reader.pop(), reader.pop()
    _add_entries(reader.stack[-1], [key, value])


def _setitems(reader: PickleReader) -> None:
    entries = reader.pop_to_mark()
    _add_entries(reader.stack[-1], entries)


def _global(reader: PickleReader) -> None:
    module = reader.take_line()
    reader.stack.append(reader.name(module, reader.take_line()))


def _stack_global(reader: PickleReader) -> None:
    name, module = reader.pop(), reader.pop()
    reader.stack.append(reader.name(module, name))


def _reduce(reader: PickleReader) -> None:
    arguments, name = reader.pop(), reader.pop()
    reader.stack.append(reader.call(name, arguments))


def _build(reader: PickleReader) -> None:
    state = reader.pop()
    _set_state(reader.stack[-1], state)


_OPERATIONS: dict[bytes, _Operation] = {
    b"\x80": _skip(1),  # the protocol
    b"\x95": _skip(8),  # the length of a frame
    b"(": _push(lambda: _MARK),
    b"}": _push(dict),
    b"]": _push(list),
    b")": _push(tuple),
    b"N": _push(lambda: None),
    b"\x88": _push(lambda: True),
    b"\x89": _push(lambda: False),
    b"J": _ahead(4, _signed),
    b"K": _ahead(1, _unsigned),
    b"M": _ahead(2, _unsigned),
    b"\x8a": _sized(1, _signed),
    b"\x8b": _sized(4, _signed),
    b"G": _ahead(8, lambda raw: struct.unpack(">d", raw)[0]),
    b"X": _sized(4, _text),
    b"\x8c": _sized(1, _text),
    b"\x8d": _sized(8, _text),
    b"T": _sized(4, _ascii),
    b"U": _sized(1, _ascii),
    b"B": _sized(4, _same),
    b"C": _sized(1, _same),
    b"\x8e": _sized(8, _same),
    b"t": lambda reader: reader.stack.append(tuple(reader.pop_to_mark())),
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"q": _put(1),
    b"r": _put(4),
    b"h": _get(1),
    b"j": _get(4),
    b"\x94": _memoize,
    b"a": _append,
    b"e": _appends,
    b"s": _setitem,
    b"u": _setitems,
    b"c": _global,
    b"\x93": _stack_global,
    b"R": _reduce,
    b"b": _build,
    b"P": lambda reader: reader.stored(),
    b"Q": lambda reader: reader.stored(),
}
"""The operations of plain data, in protocols 2 to 4."""
