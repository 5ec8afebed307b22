"""Compiled loops over the bytes of labels: number them, look them up, sort them, and number the labels of triples.

Labels are UTF-8. ``content`` holds one label after the other, each followed by a line end; label i is
``content[offsets[i]:offsets[i + 1] - 1]``. ``slots`` is an open-addressing hash table of a power of two of places: a
slot is ``EMPTY``, or the hash of a label and its number.
"""

import numpy as np

from relens.compiled import njit

EMPTY = -1
NUMBER_BITS = 31
"""Bits of a slot that hold the number of a label; those above hold its hash, of 32 bits."""
NUMBER = 2**NUMBER_BITS - 1
WORD = 7
"""Bytes that ``sort_keys`` looks at together."""

DONE, FULL, REFUSED = 0, 1, 2
"""Ends of ``number_triples``: the text is read; a table must grow; a line is not a triple."""

_TAB, _NEWLINE, _RETURN = 9, 10, 13
_HASH_BITS = 2**32 - 1


@njit()
def is_full(count, n_slots):  # type: ignore[no-untyped-def]
    """Say whether a table of ``count`` labels has no room for two more: a third of its slots stays empty."""
    return count + 2 > n_slots * 2 // 3


@njit()
def find_slot(slots, content, offsets, text, begin, end):  # type: ignore[no-untyped-def]
    """Return the slot of the label ``text[begin:end]``, or the empty slot where it belongs; and its hash."""
    found = np.int64(2166136261)  # FNV-1a
    for i in range(begin, end):
        found = ((found ^ np.int64(text[i])) * 16777619) & _HASH_BITS
    found = ((found ^ (found >> 16)) * 73244475) & _HASH_BITS
    found ^= found >> 16
    mask = len(slots) - 1
    at = found & mask
    while slots[at] != EMPTY:
        if slots[at] >> NUMBER_BITS == found:
            start = offsets[slots[at] & NUMBER]
            if offsets[(slots[at] & NUMBER) + 1] - start == end - begin + 1:
                i = 0
                while i < end - begin and content[start + i] == text[begin + i]:
                    i += 1
                if i == end - begin:
                    break
        at = (at + 1) & mask
    return at, found


@njit()
def number_label(slots, content, offsets, count, text, begin, end):  # type: ignore[no-untyped-def]
    """Return the number of the label ``text[begin:end]``; a new label gets the number ``count``."""
    at, found = find_slot(slots, content, offsets, text, begin, end)
    if slots[at] != EMPTY:
        return slots[at] & NUMBER
    slots[at] = (found << NUMBER_BITS) | count
    place = offsets[count]
    for i in range(begin, end):
        content[place + i - begin] = text[i]
    content[place + end - begin] = _NEWLINE
    offsets[count + 1] = place + end - begin + 1
    return np.int64(count)


@njit()
def fill_slots(slots, content, offsets, count):  # type: ignore[no-untyped-def]
    """Enter labels 0 to ``count`` − 1 into empty slots; return the first one that occurs twice, or ``EMPTY``."""
    for number in range(count):
        at, found = find_slot(slots, content, offsets, content, offsets[number], offsets[number + 1] - 1)
        if slots[at] != EMPTY:
            return number
        slots[at] = (found << NUMBER_BITS) | number
    return EMPTY


@njit()
def find_labels(slots, content, offsets, text, begins, ids):  # type: ignore[no-untyped-def]
    """Fill ``ids`` (n,) with the numbers of labels ``text[begins[i]:begins[i + 1] - 1]``, or ``EMPTY``."""
    for i in range(len(ids)):
        at, _ = find_slot(slots, content, offsets, text, begins[i], begins[i + 1] - 1)
        ids[i] = EMPTY if slots[at] == EMPTY else slots[at] & NUMBER


@njit()
def is_blank(text, begin, end):  # type: ignore[no-untyped-def]
    """Say whether ``text[begin:end]`` consists of white space alone, as ``str.isspace`` does, or of nothing."""
    at = begin
    while at < end:
        first = text[at]
        if 9 <= first <= 13 or 28 <= first <= 32:
            at += 1
        elif first == 0xC2 and at + 1 < end and (text[at + 1] == 0x85 or text[at + 1] == 0xA0):
            at += 2
        elif at + 2 < end and _is_wide_space(first, text[at + 1], text[at + 2]):
            at += 3
        else:
            return False
    return True


@njit()
def _is_wide_space(first, second, third):  # type: ignore[no-untyped-def]
    """Say whether three bytes are one of U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000."""
    if first == 0xE1:
        return second == 0x9A and third == 0x80
    if first == 0xE2:
        general = second == 0x80 and (0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF)
        return general or (second == 0x81 and third == 0x9F)
    return first == 0xE3 and second == 0x80 and third == 0x80


@njit()
def first_invalid(content, offsets):  # type: ignore[no-untyped-def]
    """Return the first label that is blank, or has a tab or a carriage return; ``EMPTY`` if there is none."""
    for number in range(len(offsets) - 1):
        begin, end = offsets[number], offsets[number + 1] - 1
        if is_blank(content, begin, end):
            return number
        for i in range(begin, end):
            if content[i] == _TAB or content[i] == _RETURN:
                return number
    return EMPTY


@njit()
def number_triples(text, at, triples, row, counts, entities, relations):  # type: ignore[no-untyped-def]
    """Number the labels of lines ``head TAB relation TAB tail``, from the line that begins at ``at``.

    Lines end with a line feed, or a carriage return and a line feed; the last one may lack its end. Empty lines are
    skipped.

    Args:
        text: bytes, (n,) uint8.
        at: where to begin.
        triples: receives rows (head, relation, tail), (m, 3) int32, from ``row`` on.
        row: the first free row.
        counts: the numbers of known entities and relations, (2,) int64; changed.
        entities: slots, content and offsets of the entities, with room for the text; changed.
        relations: the same of the relations.

    Returns:
        where the next line begins, the next free row, and ``DONE``, ``FULL`` or ``REFUSED``.
    """
    entity_slots, entity_content, entity_offsets = entities
    relation_slots, relation_content, relation_offsets = relations
    while at < len(text):
        if is_full(counts[0], len(entity_slots)) or is_full(counts[1], len(relation_slots)):
            return at, row, FULL
        end, tabs, first, second = at, 0, at, at
        while end < len(text) and text[end] != _NEWLINE:
            if text[end] == _TAB:
                tabs += 1
                if tabs == 1:
                    first = end
                else:
                    second = end
            end += 1
        stop = end - 1 if at < end < len(text) and text[end - 1] == _RETURN else end
        if stop > at:
            if tabs != 2:
                return at, row, REFUSED
            for place, begin, finish in ((0, at, first), (1, first + 1, second), (2, second + 1, stop)):
                kind = place % 2
                if kind == 0:
                    number = number_label(entity_slots, entity_content, entity_offsets, counts[0], text, begin, finish)
                else:
                    number = number_label(
                        relation_slots, relation_content, relation_offsets, counts[1], text, begin, finish
                    )
                if number == counts[kind]:
                    if is_blank(text, begin, finish):
                        return at, row, REFUSED
                    counts[kind] += 1
                triples[row, place] = number
            row += 1
        at = end + 1
    return at, row, DONE


@njit()
def sort_keys(content, offsets, labels, skip, keys):  # type: ignore[no-untyped-def]
    """Fill ``keys`` (m,) int64 so that they sort some labels by ``WORD`` bytes after the first ``skip`` ones.

    Keys of labels that end there sort before those of longer ones. The last three bits say how many bytes there are.
    """
    for i in range(len(labels)):
        begin = offsets[labels[i]] + skip
        length = min(max(offsets[labels[i] + 1] - 1 - begin, 0), WORD)
        key = np.int64(0)
        for k in range(WORD):
            key = key << 8
            if k < length:
                key |= np.int64(content[begin + k])
        keys[i] = (key << 3) | length


@njit()
def gather_labels(content, offsets, labels, taken):  # type: ignore[no-untyped-def]
    """Fill ``taken`` with the bytes of some labels one after the other, line ends included."""
    place = 0
    for i in range(len(labels)):
        for k in range(offsets[labels[i]], offsets[labels[i] + 1]):
            taken[place] = content[k]
            place += 1
