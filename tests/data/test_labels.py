"""Labels as bytes behave as a tuple of the same texts. This covers the kernels of labels as well."""

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.data.label_kernels import is_blank
from relens.data.labels import Labels, hash_slots

LABEL = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n"))
SIMILAR = st.text("ab\x00é", max_size=20)
"""Labels that begin alike for longer than the bytes that are sorted together, and end with NUL."""
DISTINCT = st.lists(LABEL | SIMILAR, unique=True)

pytestmark = pytest.mark.kernels


@given(texts=DISTINCT, other=LABEL)
def test_labels_are_a_sequence_equal_to_the_tuple_of_their_texts(texts, other):
    labels, expected = Labels.from_texts(texts), tuple(texts)
    assert len(labels) == len(expected)
    assert tuple(labels) == expected
    assert labels == expected
    assert expected == labels
    assert hash(labels) == hash(expected)
    assert labels == Labels.from_content("".join(f"{text}\n" for text in texts).encode())
    assert (labels == (*expected, other)) is False
    assert [labels[i] for i in range(-len(expected), len(expected))] == [*expected, *expected]
    assert labels[1:] == expected[1:]
    assert labels[::-1] == expected[::-1]
    assert (other in labels) is (other in expected)
    assert pickle.loads(pickle.dumps(labels)) == expected


def test_a_place_outside_raises():
    labels = Labels.from_texts(["a", "b"])
    for index in (2, -3):
        with pytest.raises(IndexError, match="of 2"):
            labels[index]


@given(texts=DISTINCT)
def test_the_order_is_that_of_the_texts(texts):
    labels = Labels.from_texts(texts)
    assert labels.taken(labels.order()) == tuple(sorted(texts))


def test_labels_that_begin_alike_are_sorted():
    texts = [f"http://example.org/entity/Q{i}" for i in range(100)] + ["http://example.org/", "http://example.org/\x00"]
    labels = Labels.from_texts(texts)
    assert [labels[place] for place in labels.order().tolist()] == sorted(texts)


@given(texts=DISTINCT, asked=st.lists(LABEL | SIMILAR))
def test_labels_are_found_at_their_places(texts, asked):
    places = {text: place for place, text in enumerate(texts)}
    wanted = [*asked, *texts]
    assert Labels.from_texts(texts).find(wanted).tolist() == [places.get(text, -1) for text in wanted]


def test_labels_that_cannot_be_here_are_not_found():
    labels = Labels.from_texts(["a", "b"])
    assert labels.find(["a\nb", "b", "\ud800", "a\n"]).tolist() == [-1, 1, -1, -1]
    assert 7 not in labels


def test_more_labels_than_slots_are_found():
    texts = [f"Q{number}" for number in range(10_000)]
    assert np.array_equal(Labels.from_texts(texts).find(texts), np.arange(10_000))
    assert Labels.from_texts(texts).repeated is None


@given(texts=st.lists(st.sampled_from("abcdé")))
def test_the_first_repeated_label_is_found(texts):
    expected = next((text for place, text in enumerate(texts) if text in texts[:place]), None)
    assert Labels.from_texts(texts).repeated == expected


@given(texts=st.lists(st.text("a\t\r\u2000 ", max_size=3)))
def test_the_first_invalid_label_is_found(texts):
    expected = next((text for text in texts if not text.strip() or "\t" in text or "\r" in text), None)
    assert Labels.from_texts(texts).invalid == expected


def test_white_space_is_that_of_python():
    spaces = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    for text in ("", *spaces, "".join(spaces), *(f"{space}a" for space in spaces), *(f"a{space}" for space in spaces)):
        content = np.frombuffer(text.encode() + b"\x80", dtype=np.uint8)
        assert is_blank(content, 0, len(content) - 1) == (not text.strip()), repr(text)


@given(
    text=st.text(
        st.sampled_from("\x80\x85\xa0\u1680\u1681\u2000\u200a\u200b\u2028\u202a\u202f\u205f\u2060\u3000\u3001")
    )
)
def test_texts_near_white_space_are_not_blank(text):
    content = np.frombuffer(text.encode(), dtype=np.uint8)
    assert is_blank(content, 0, len(content)) == (not text.strip())


def test_slots_hold_each_label_once():
    labels = Labels.from_texts(["a", "b", "c"])
    slots, repeated = hash_slots(labels.content, labels.offsets, 3, 8)
    assert repeated == -1
    assert sorted(slots[slots >= 0] & (2**31 - 1)) == [0, 1, 2]
