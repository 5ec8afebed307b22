"""Finding names: beginnings first, then what stands inside, then what resembles them, among very many."""

import random
from difflib import get_close_matches

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relens.prediction import names as index_module
from relens.prediction.names import COMPARED, OFFERED, NameIndex

LABELS = ("Berlin", "Bern", "Aberdeen", "bergen", "Oslo", "/m/01", "Zürich", "STRASSE 1")


def of(labels):
    return NameIndex(enumerate(labels))


def found(typed: str, limit: int = 10) -> list[str]:
    index = NameIndex([*enumerate(LABELS), (LABELS.index("/m/01"), "Bernese Alps")])
    return [LABELS[number] for number in index.matches(typed, limit)]


def test_names_that_begin_so_come_before_names_that_contain_it():
    assert found("ber") == ["bergen", "Berlin", "Bern", "/m/01", "Aberdeen"]


def test_a_second_name_is_found_like_the_first_and_its_thing_once():
    assert found("alps") == ["/m/01"]
    assert found("/m") == ["/m/01"]
    assert found("/") == ["/m/01"]


def test_case_does_not_matter():
    assert found("BERN") == ["Bern", "/m/01"]
    assert found("straße") == ["STRASSE 1"]
    assert found("zÜ") == ["Zürich"]


def test_nothing_typed_finds_the_first_ones():
    assert found("", 3) == ["/m/01", "Aberdeen", "bergen"]


@pytest.mark.parametrize("typed", ["xyz", "bern\nberl", "\n", "n\nb", "\ud800", "\0"])
def test_unknown_text_matches_nothing(typed):
    assert found(typed) == []


@given(st.lists(st.text("aAb.", min_size=1, max_size=5), unique=True), st.text("ab.", max_size=3), st.integers(1, 6))
def test_matches_are_those_of_a_loop(labels, typed, limit):
    folded = sorted((label.casefold(), number) for number, label in enumerate(labels))
    first = [number for text, number in folded if text.startswith(typed)]
    then = [number for text, number in folded if typed in text and number not in first]
    assert of(labels).matches(typed, limit) == (first + then)[:limit]


def test_exactly_takes_all_names_in_any_case():
    index = NameIndex([(0, "a"), (1, "A"), (2, "b"), (2, "Bee"), (0, "bee")])
    assert index.exactly("A") == [0, 1]
    assert index.exactly("BEE") == [0, 2]
    assert index.exactly("be") == []


@pytest.mark.parametrize(("typed", "label"), [("Berlim", "Berlin"), ("xerlin", "Berlin"), ("osol", "Oslo")])
def test_the_closest_name_comes_first_as_it_is_spelled(typed, label):
    assert of(LABELS).closest(typed)[0] == label


def test_zeros_before_numbers_are_forgiven_first():
    officers = [f"officer_{i}_{j:02d}" for i in range(3) for j in range(20)]
    assert of(officers).closest("officer_2_3")[0] == "officer_2_03"
    assert of(officers).closest("Officer_02_013")[0] == "officer_2_13"
    assert of([*officers, "officer_2_3x"]).closest("officer_2_3")[:2] == ["officer_2_03", "officer_2_3x"]


def test_equally_similar_names_are_sorted():
    assert of(["cat", "bat", "hat", "rat"]).closest("mat") == ["bat", "cat", "hat"]


def test_names_that_begin_so_or_contain_it_are_offered():
    relations = ("northeast_neighbour", "has_many_things_to_the_north", "north_neighbour", "capital_of", "forth")
    assert of(relations).closest("North") == ["north_neighbour", "northeast_neighbour", "forth"]
    assert of(relations[:2]).closest("north") == ["northeast_neighbour", "has_many_things_to_the_north"]
    assert of(relations).closest("no") == []


def test_nothing_is_close_to_nonsense():
    assert of(LABELS).closest("qqqqqqqqqqqq") == []
    assert of(()).closest("a") == []


@pytest.fixture(scope="module")
def people():
    rng = random.Random(0)
    return [f"http://www.example.org/resource/Person_{rng.randrange(10**7):07d}" for _ in range(20_000)]


@pytest.fixture
def compared(monkeypatch):
    """The numbers of names that texts were compared with letter by letter, which is what takes time."""
    numbers = []

    by_likeness = index_module._by_likeness

    def watched(text, names):
        numbers.append(len(names))
        return by_likeness(text, names)

    monkeypatch.setattr(index_module, "_by_likeness", watched)
    return numbers


def test_of_many_names_few_are_compared_and_the_closest_is_among_them(people, compared):
    index = of(people)
    for label in people[777:780]:
        for typed in (label.replace("Person", "Persn"), label.upper(), label[:-9] + label[-8:], "x" + label[3:]):
            assert label in index.closest(typed)
    assert index.closest("?") == index.closest("x" * 500) == index.closest("") == []
    assert max(compared) <= COMPARED < len(people)


def test_a_slip_in_a_short_word_among_many_is_mostly_forgiven(compared):
    rng = random.Random(1)
    letters = "abcdefghiklmnoprstu"
    words = sorted({"".join(rng.choices(letters, k=rng.randrange(6, 12))) for _ in range(5_000)})
    index, right, best = of(words), 0, 0
    for word in rng.sample(words, 100):
        at = rng.randrange(len(word))
        typed = word[:at] + rng.choice(letters) + word[at + 1 :]
        right += word in index.closest(typed)
        best += word in get_close_matches(typed, words, n=OFFERED, cutoff=0.6)
    assert best - 3 <= right <= 100  # as good as comparing with all of them, or nearly
    assert max(compared) <= COMPARED
