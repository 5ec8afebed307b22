from pathlib import Path

import pytest

from relens.data.grouping import Grouping
from relens.data.queries import HEAD, TAIL, Queries
from relens.errors import DatasetError

RELATIONS = ("knows", "likes", "owns")
TRIPLES = [[0, 2, 1], [1, 0, 1], [2, 1, 0]]


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "groups.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def labels_of(grouping: Grouping) -> list[str]:
    """The group label of each of the six queries of TRIPLES."""
    return [grouping.labels[group] for group in grouping.groups_of(Queries.from_triples(TRIPLES)).tolist()]


def test_relation_and_direction_is_row_2r_plus_d() -> None:
    grouping = Grouping.from_spec("relation-direction", RELATIONS)
    assert grouping.scheme == "relation-direction"
    assert len(grouping) == 6
    for relation in range(3):
        for direction in (TAIL, HEAD):
            assert grouping.table[relation, direction] == 2 * relation + direction
    assert labels_of(grouping)[:3] == ["owns [tail]", "owns [head]", "knows [tail]"]


def test_relation_joins_both_directions() -> None:
    grouping = Grouping.from_spec("relation", RELATIONS)
    assert grouping.scheme == "relation"
    assert grouping.labels == RELATIONS
    assert labels_of(grouping) == ["owns", "owns", "knows", "knows", "likes", "likes"]


def test_file_joins_relations_and_leaves_the_others_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "owns\tsocial\n\nknows\t social \nowns\tsocial\n")
    grouping = Grouping.from_spec(str(path), RELATIONS)
    assert grouping.scheme == "file"
    assert grouping.labels == ("social", "likes")
    assert grouping.table.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert labels_of(grouping) == ["social", "social", "social", "social", "likes", "likes"]


def test_group_may_bear_the_name_of_a_listed_relation(tmp_path: Path) -> None:
    path = write(tmp_path, "knows\tlikes\nlikes\tlikes\n")
    assert Grouping.from_file(path, RELATIONS).labels == ("likes", "owns")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("knows\tx\nlikes x\n", r"line 2: expected 'relation TAB group', found 'likes x'"),
        ("knows\t \n", r"line 1: expected 'relation TAB group'"),
        ("\nknow\tx\n", r"line 2: unknown relation 'know'; did you mean 'knows'"),
        ("knows\tx\nknows\ty\n", r"line 2: relation 'knows' has two groups; keep one line"),
        ("knows\tlikes\n", r"'likes' is the name of a group and of a relation that is not listed\. Add a line"),
    ],
)
def test_malformed_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DatasetError, match=rf"groups\.tsv.*{message}"):
        Grouping.from_file(write(tmp_path, text), RELATIONS)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"none\.tsv does not exist"):
        Grouping.from_file(tmp_path / "none.tsv", RELATIONS)


def test_unknown_grouping_lists_the_choices() -> None:
    with pytest.raises(DatasetError, match=r"unknown grouping 'relations': expected .* did you mean 'relation'"):
        Grouping.from_spec("relations", RELATIONS)
