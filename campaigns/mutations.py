"""Change files a little: bytes, lines and fields, or the structure of JSON, pickles, arrays and archives.

All choices come from one ``random.Random``, so that a seed repeats them.
"""

import gzip
import io
import json
import pickletools
import random
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from campaigns.target import Files

MOST_BYTES = 400_000
"""Longer files are cut, so that an input takes milliseconds."""
DEEP = 100_000
TOKENS = (
    b"", b"0", b"1", b"-1", b"2", b"1.5", b"-0.0", b"nan", b"NaN", b"inf", b"-Infinity", b"1e999", b"1e-999", b"null",
    b"true", b"[]", b"{}", b"[[]]", b'""', b'"x"', b"2147483647", b"2147483648", b"-2147483649",
    b"9223372036854775808", b"18446744073709551616", b"9" * 400, b"9" * 5000, b"[" * DEEP, b"{" * 300,
    b'{"a":' * DEEP, b"a." * 3000, b"(" * 300, b"\t", b"\n", b"\r", b"\r\n", b",", b"=", b'"', b"'", b"\\", b"#", b" ",
    b"\x00", b"\x1b[2J", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\\ud800", b"x" * 140_000, b"_", b"1_000",
    b"0x10", "٣".encode(), "²".encode(), "\u2028".encode(), "\ufeff".encode(), "\u0085".encode(), b"..", b"../..",
    b"kind", b"format", b"nan\tnan\tnan", b'{"x": 1, "x": 2}',
)  # fmt: skip
"""Pieces worth inserting anywhere."""
VALUES: tuple[object, ...] = (
    None, True, False, -1, 0, 1, 2, 2**31 - 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), "", "x", "nan", "\ud800", "a\tb", "a\nb", "\x1b[2J", "../x", "y" * 300, [], {}, [[]],
    [None], [-1], [0], [2**31], [2**63], ["x"], [1.5], [float("nan")], {"": 0}, {"x": {}}, [[[[[[[[0]]]]]]]],
    list(range(300)), [[0, 1], [2]], ["x", "x"],
)  # fmt: skip
"""JSON values worth putting in place of another."""
_WORD = re.compile(rb"[\w.+-]+|\"[^\"\n]*\"|'[^'\n]*'|[^\w\s]")
Rewrite = Callable[[random.Random, bytes, Sequence[bytes]], bytes]
DAMAGED = (ValueError, OverflowError, EOFError, OSError, RuntimeError, zlib.error, zipfile.BadZipFile)
"""Errors for content that is damaged already. An encrypted member of an archive is a ``RuntimeError``."""


def mutated(rng: random.Random, files: Files, tokens: Sequence[bytes], other: Files) -> dict[str, bytes]:
    """Return files with one to four changes. ``other`` is another input to take content from."""
    found = dict(files)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        name = rng.choice(sorted(found)) if found else "x"
        if rng.random() < 0.03:
            _change_set(rng, found, name, other)
        else:
            found[name] = _changed(rng, found.get(name, b""), (*TOKENS, *tokens, *tokens), other.get(name, b""))
    return found


def _change_set(rng: random.Random, files: dict[str, bytes], name: str, other: Files) -> None:
    """Drop, empty, exchange or replace a file."""
    kind = rng.randrange(4)
    if kind == 0:
        files.pop(name, None)
    elif kind == 1:
        files[name] = b""
    elif kind == 2:
        second = rng.choice(sorted({*files, name}))
        files[name], files[second] = files.get(second, b""), files.get(name, b"")
    else:
        files[name] = other.get(name, b"")


def _changed(rng: random.Random, content: bytes, tokens: Sequence[bytes], other: bytes) -> bytes:
    """Return a content with one change, of a kind that suits it."""
    if rng.random() < 0.04 and other:
        cut, from_ = rng.randrange(len(content) + 1), rng.randrange(len(other) + 1)
        return (content[:cut] + other[from_:])[:MOST_BYTES]
    for begin, rewrite in _FORMATS:
        if content.startswith(begin) and rng.random() < 0.85:
            try:
                return rewrite(rng, content, tokens)[:MOST_BYTES]
            except DAMAGED:
                break
    textual = _words if b"\0" not in content[:200] else _bytes
    return rng.choice((_bytes, textual, textual, _lines))(rng, content, tokens)[:MOST_BYTES]


def _bytes(rng: random.Random, content: bytes, tokens: Sequence[bytes]) -> bytes:
    """Flip a bit, or set, insert, remove, repeat or cut bytes."""
    at, end = sorted((rng.randrange(len(content) + 1), rng.randrange(len(content) + 1)))
    kind = rng.randrange(7)
    if kind == 0 and at < len(content):
        return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
    if kind == 1:
        return content[:at] + rng.randbytes(1) + content[at + 1 :]
    if kind == 2:
        return content[:at] + rng.choice(tokens) + content[at:]
    if kind == 3:
        return content[:at] + content[min(end, at + rng.choice((1, 2, 4, 8, 10**9))) :]
    if kind == 4:
        return content[:end] + content[at : min(end, at + 200)] * rng.choice((1, 2, 30)) + content[end:]
    if kind == 5:
        return content[:at]
    width = rng.choice((1, 2, 4, 8))
    number = rng.choice((0, 1, -1, 2 ** (8 * width - 1), 2 ** (8 * width - 1) - 1, len(content), rng.getrandbits(64)))
    return content[:at] + (number % (1 << 8 * width)).to_bytes(width, "little") + content[at + width :]


def _lines(rng: random.Random, content: bytes, tokens: Sequence[bytes]) -> bytes:
    """Remove, repeat, exchange or insert a line, or change one of its fields."""
    lines = content.split(b"\n")
    at, kind = rng.randrange(len(lines)), rng.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines[at : at + 1] = [lines[at]] * rng.choice((2, 3, 50))
    elif kind == 2:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines.insert(at, rng.choice(tokens))
    else:
        separator = b"\t" if b"\t" in lines[at] else b","
        fields = lines[at].split(separator)
        place = rng.randrange(len(fields))
        fields[place : place + 1] = rng.choice(
            ([], [fields[place]] * 2, [rng.choice(tokens)], [rng.choice(tokens)], [rng.choice(fields)])
        )
        lines[at] = separator.join(fields)
    return b"\n".join(lines)


def _words(rng: random.Random, content: bytes, tokens: Sequence[bytes]) -> bytes:
    """Replace, remove or repeat a number, a word, a quoted text or a mark, or take another of the same content."""
    words = list(_WORD.finditer(content))
    if not words:
        return _bytes(rng, content, tokens)
    word = rng.choice(words)
    put = rng.choice((rng.choice(tokens), rng.choice(tokens), rng.choice(words)[0], word[0] * 2, b""))
    return content[: word.start()] + put + content[word.end() :]


def _json(rng: random.Random, content: bytes, tokens: Sequence[bytes]) -> bytes:
    """Change one value, key or entry of a JSON text; the checksum of a record goes, so that its content is read."""
    if rng.random() < 0.15:
        return _words(rng, content, tokens)
    value = json.loads(content)
    if isinstance(value, dict) and rng.random() < 0.95:
        value.pop("checksum", None)
    places: list[tuple[Any, Any]] = []  # a node, which is a dict or a list, and a key of it
    queue: list[Any] = [value]
    while queue:
        node = queue.pop()
        if isinstance(node, dict | list) and len(places) < 5000:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            places += [(node, key) for key in keys]
            queue += [node[key] for key in keys]
    if not places:
        return json.dumps(rng.choice(VALUES)).encode()
    node, key = rng.choice(places)
    kind = rng.randrange(8)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(node, dict):
        new = rng.choice(("", "x", "\ud800", "a\tb", str(key) + "x", "9" * 30))
        node[new] = node.pop(key)
    elif kind == 2 and isinstance(node, list):
        node.insert(key, rng.choice((*VALUES, node[key])))
    elif kind == 3:
        other, place = rng.choice(places)
        node[key] = other[place]
    elif kind == 4 and isinstance(number := node[key], int | float):
        node[key] = rng.choice((number + 1, number - 1, -number, number * 2**31, str(number), float(number)))
    else:
        node[key] = rng.choice(VALUES)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _gzip(rng: random.Random, content: bytes, tokens: Sequence[bytes]) -> bytes:
    inner = zlib.decompressobj(31).decompress(content, MOST_BYTES)
    return gzip.compress(_changed(rng, inner, tokens, b""), 1, mtime=0)


def _zip(rng: random.Random, content: bytes, tokens: Sequence[bytes]) -> bytes:
    """Change a member, the list of members, or the bytes of a member under its old checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.open(info).read(MOST_BYTES)) for info in archive.infolist()]
    kind = rng.randrange(8)
    at = rng.randrange(len(members)) if members else 0
    if not members:
        members = [("x", b"")]
    name, inner = members[at]
    if kind == 0:
        del members[at]
    elif kind == 1:
        members.insert(at, (rng.choice((name, "x", "../x", "/x", "a\\b", "")), inner))
    else:
        members[at] = (name, _changed(rng, inner, tokens, b""))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, inner in members:
            archive.writestr(zipfile.ZipInfo(name or "x"), inner)
    packed = buffer.getvalue()
    return _bytes(rng, packed, tokens) if kind == 2 else packed


def _npy(rng: random.Random, content: bytes, tokens: Sequence[bytes]) -> bytes:
    """Change the header of an array, with or without its length, or its data."""
    begin = 10 if content[6:7] == b"\x01" else 12
    end = begin + int.from_bytes(content[8:begin], "little")
    header, data = content[begin:end], content[end:]
    if rng.random() < 0.4:
        return content[:end] + _bytes(rng, data, tokens)
    changed = _words(rng, header, tokens)
    length = len(changed) if rng.random() < 0.9 else len(header)
    return content[:8] + (length % (1 << 8 * (begin - 8))).to_bytes(begin - 8, "little") + changed + data


def _pickle(rng: random.Random, content: bytes, tokens: Sequence[bytes]) -> bytes:
    """Remove, repeat, exchange, insert or change an operation."""
    starts = [at for _, _, at in pickletools.genops(content) if at is not None]
    parts = [content[at:end] for at, end in zip(starts, [*starts[1:], len(content)], strict=True)]
    at, kind = rng.randrange(len(parts)), rng.randrange(6)
    if kind == 0:
        del parts[at]
    elif kind == 1:
        parts[at : at + 1] = [parts[at]] * rng.choice((2, 2, 3, 1000))
    elif kind == 2:
        other = rng.randrange(len(parts))
        parts[at], parts[other] = parts[other], parts[at]
    elif kind == 3:
        parts.insert(at, rng.choice(_OPERATIONS))
    elif kind == 4:
        parts.insert(at, rng.choice(parts))
    elif len(parts[at]) > 1:
        parts[at] = parts[at][:1] + _bytes(rng, parts[at][1:], tokens)
    return b"".join(parts)


_OPERATIONS = (
    b"N", b"K\x01", b"J\xff\xff\xff\xff", b"]", b"}", b")", b"(", b"t", b"a", b"e", b"s", b"u", b"R", b"b", b"0", b"1",
    b"2", b".", b"\x85", b"\x86", b"\x87", b"\x88", b"h\x00", b"q\x00", b"\x94", b"r\xff\xff\xff\x0f",
    b"j\xff\xff\xff\x7f",
    b"X\xff\xff\xff\xff", b"B\xff\xff\xff\x7f", b"\x8e\xff\xff\xff\xff\xff\xff\xff\x00", b"\x8a\xff" + b"\x01" * 255,
    b"\x8b\xff\xff\xff\x7f", b"G\x7f\xf8\x00\x00\x00\x00\x00\x00", b"\x93", b"\x81", b"\x92", b"Q", b"\x8f", b"\x97",
    b"I99999999999999999999\n", b"V\\ud800\n", b"cnumpy\nndarray\n", b"cnumpy\ndtype\n", b"c_codecs\nencode\n",
    b"cos\nsystem\n", b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
)  # fmt: skip
"""Operations of pickles worth inserting: sizes that no file has, calls, and names."""
_FORMATS: tuple[tuple[bytes, Rewrite], ...] = (
    (b"\x1f\x8b", _gzip), (b"PK\x03\x04", _zip), (b"\x93NUMPY", _npy), (b"\x80", _pickle), (b"{", _json), (b"[", _json),
)  # fmt: skip
