"""Restrictions equal loops over Python sets: who may answer, who competes, and whose answers are outside."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.data import restriction as module
from relens.data.dataset import Dataset, read_folder, write_folder
from relens.data.queries import DIRECTIONS, Queries
from relens.data.restriction import Restriction
from relens.data.vocabulary import Vocabulary
from relens.errors import DatasetError

E, R, T = 7, 3, 4
ENTITY, RELATION = st.integers(0, E - 1), st.integers(0, R - 1)
TRIPLES = st.lists(st.tuples(ENTITY, RELATION, ENTITY), max_size=14)


def graph(train, valid=(), types=None) -> Dataset:
    """Return a graph with all entities and relations, whatever the triples are."""
    rows = {split: np.array(triples).reshape(-1, 3) for split, triples in (("train", train), ("valid", valid))}
    entities = Vocabulary("entity", tuple(f"e{i}" for i in range(E)))
    relations = Vocabulary("relation", tuple(f"r{i}" for i in range(R)))
    dataset = Dataset("small", entities, relations, **rows, test=np.empty((0, 3)))
    if types is not None:
        vars(dataset)["types"] = types  # in the place of what a file would say
    return dataset


def typed(pairs) -> module.EntityTypes:
    used = sorted({kind for _, kind in pairs})
    entity, kind = [np.array(column, dtype=np.int32) for column in zip(*pairs, strict=True)]
    return module.EntityTypes(tuple(f"t{kind}" for kind in used), entity, np.searchsorted(used, kind).astype(np.int32))


def seen(train, relation, direction) -> set[int]:
    """Return the entities that train has on the missing side, one triple at a time."""
    return {(tail, head)[direction] for head, r, tail in train if r == relation}


def of_a_type(train, pairs, relation, direction) -> set[int]:
    kinds = {kind for entity, kind in pairs if entity in seen(train, relation, direction)}
    return {entity for entity, kind in pairs if kind in kinds}


def check(found: Restriction, expected) -> None:
    """Compare the sets of all relations and directions."""
    for relation in range(R):
        for direction in range(len(DIRECTIONS)):
            allowed = found.allowed(relation, direction)
            assert allowed.tolist() == sorted(expected(relation, direction)), (relation, direction)
            assert np.flatnonzero(found.mask(relation, direction)).tolist() == allowed.tolist()


@given(TRIPLES)
def test_observed_are_the_entities_of_train_on_that_side(train):
    check(Restriction.observed(graph(train)), lambda r, d: seen(train, r, d))


@settings(max_examples=200)
@given(TRIPLES, st.lists(st.tuples(ENTITY, st.integers(0, T - 1)), min_size=1, max_size=12), st.integers(1, 9))
def test_types_are_those_of_the_entities_of_train_on_that_side(train, pairs, joined):
    dataset, before = graph(train, types=typed(pairs)), module._JOINED
    module._JOINED = joined  # the join is made in several parts
    try:
        found = Restriction.of_types(dataset)
    finally:
        module._JOINED = before
    check(found, lambda r, d: of_a_type(train, pairs, r, d))


@given(st.lists(ENTITY, min_size=1, max_size=12))
def test_a_list_is_the_same_for_all_questions(entities):
    found = Restriction.listed(graph([(0, 0, 1)]), np.array(entities), "mine")
    check(found, lambda r, d: set(entities))
    assert found.name.startswith("list mine ")


@given(TRIPLES, TRIPLES)
def test_competitors_are_the_allowed_without_other_known_answers_and_the_answer(train, valid):
    dataset = graph(train, valid)
    found, queries = Restriction.observed(dataset), Queries.from_triples(np.array(valid).reshape(-1, 3))
    offsets, excluded = found.excluded(queries, dataset.known_answers.other_answers(queries))
    facts = {tuple(row) for rows in dataset.splits.values() for row in rows.tolist()}
    outside = found.outside(queries).tolist()
    for q, (anchor, relation, direction, answer, _) in enumerate(queries.columns().T.tolist()):
        allowed = seen(train, relation, direction)
        asked = [(anchor, relation, e) if direction == 0 else (e, relation, anchor) for e in range(E)]
        competing = {e for e in allowed if asked[e] not in facts} | {answer}
        assert excluded[offsets[q] : offsets[q + 1]].tolist() == sorted(set(range(E)) - competing)
        assert outside[q] == (answer not in allowed)


def folder_of(path, types="a\tcity\nb\tcity\nc\tland\n"):
    for split, text in (("train", "a\tin\tc\n"), ("valid", "b\tin\tc\n"), ("test", "b\tin\ta\n")):
        (path / f"{split}.txt").write_text(text)
    (path / "types.tsv").write_text(types)
    return path


def test_types_are_read_from_the_folder_and_copied(tmp_path):
    dataset = read_folder(folder_of(tmp_path))
    found = Restriction.of_types(dataset)
    assert [found.allowed(0, direction).tolist() for direction in (0, 1)] == [[2], [0, 1]]
    copy = tmp_path / "copy"
    copy.mkdir()
    write_folder(dataset, copy)
    assert Restriction.of_types(read_folder(copy)).name == found.name
    assert list(read_folder(copy).types.rows(dataset.entities.labels)) == [("a", "city"), ("b", "city"), ("c", "land")]


def test_names_tell_different_lists_and_types_apart(tmp_path):
    for name in ("one", "two", "turned"):
        (tmp_path / name).mkdir()
    one = read_folder(folder_of(tmp_path / "one"))
    two = read_folder(folder_of(tmp_path / "two", "a\tcity\nb\tland\n"))
    turned = read_folder(folder_of(tmp_path / "turned", "c\tland\na\tcity\nb\tcity\na\tcity\n"))
    assert Restriction.of_types(one).name != Restriction.of_types(two).name
    assert Restriction.of_types(one).name == Restriction.of_types(turned).name, "order and repeats do not matter"
    names = [Restriction.listed(one, np.array(ids), "x").name for ids in ([0, 1], [1, 0, 1], [2])]
    assert names[0] == names[1] != names[2]


def test_types_of_unknown_entities_are_listed_with_suggestions(tmp_path):
    (tmp_path / "train.txt").write_text("berlin\tin\tgermany\n")
    (tmp_path / "valid.txt").write_text("")
    (tmp_path / "test.txt").write_text("")
    (tmp_path / "types.tsv").write_text("berlin\tcity\nbrelin\tcity\n" + "".join(f"x{i}\tcity\n" for i in range(7)))
    with pytest.raises(DatasetError) as error:
        _ = read_folder(tmp_path).types
    text = str(error.value)
    assert "types.tsv has types of 8 entities that no triple has:" in text
    assert "unknown entity 'brelin'; did you mean 'berlin'?" in text
    assert "unknown entity 'x3'" in text
    assert "… and 3 more" in text
    (tmp_path / "types.tsv").write_text("")
    with pytest.raises(DatasetError, match=r"types\.tsv is empty: expected a line 'entity TAB type'"):
        _ = read_folder(tmp_path).types


def test_without_types_an_error_says_where_they_belong(tmp_path):
    folder_of(tmp_path)
    (tmp_path / "types.tsv").unlink()
    with pytest.raises(DatasetError, match=r"has no types\.tsv\): expected the file types\.tsv in its folder"):
        Restriction.of_types(read_folder(tmp_path))
    with pytest.raises(DatasetError, match=r"small has none \(has no folder\)"):
        Restriction.of_types(graph([(0, 0, 1)]))
