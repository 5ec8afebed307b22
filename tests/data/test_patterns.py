"""Each relation of the generated graph is checked by loops that know its pattern and nothing of the generator."""

import json
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relens.cli.data import data
from relens.data.catalog import CATALOG, load_dataset, locate_folder
from relens.data.checks import describe
from relens.data.dataset import Dataset, cardinality_classes
from relens.data.patterns import PATTERN_OF, patterns
from relens.errors import DatasetError

Pairs = set[tuple[str, str]]
Graph = dict[str, Pairs]

SEEDS = (0, 1, 2)


def graph(dataset: Dataset, *splits: str) -> Graph:
    """Return the pairs head, tail of some splits by relation."""
    found: Graph = defaultdict(set)
    entities, relations = dataset.entities.labels, dataset.relations.labels
    for head, relation, tail in (row for split in splits for row in dataset.splits[split].tolist()):
        found[relations[relation]].add((entities[head], entities[tail]))
    return found


def inverse(pairs: Pairs) -> Pairs:
    return {(tail, head) for head, tail in pairs}


def compose(first: Pairs, second: Pairs) -> Pairs:
    tails = defaultdict(set)
    for head, tail in second:
        tails[head].add(tail)
    return {(head, tail) for head, middle in first for tail in tails[middle]}


@pytest.fixture(params=SEEDS, scope="module")
def dataset(request: pytest.FixtureRequest) -> Dataset:
    return patterns(request.param)


@pytest.fixture(scope="module")
def facts(dataset: Dataset) -> Graph:
    return graph(dataset, "train", "valid", "test")


@pytest.fixture(scope="module")
def train(dataset: Dataset) -> Graph:
    return graph(dataset, "train")


@pytest.fixture(scope="module")
def held_out(dataset: Dataset) -> Graph:
    return graph(dataset, "valid", "test")


# Size, splits, determinism.


def test_size(dataset: Dataset) -> None:
    assert 900 <= len(dataset.entities) <= 1100
    assert 10 <= len(dataset.relations) <= 14
    assert set(dataset.relations.labels) == PATTERN_OF.keys()
    for row in describe(dataset)["relations"]:
        assert row["valid"] == row["test"] == 100
        assert row["train"] > row["valid"] + row["test"]


@pytest.mark.parametrize("seed", range(3, 20))
def test_every_seed_finds_enough_to_hold_out(seed: int) -> None:
    assert patterns(seed).counts == CATALOG["patterns"].counts


def test_splits_are_disjoint_and_every_entity_is_in_train(dataset: Dataset) -> None:
    facts = describe(dataset)
    assert facts["duplicates"] == {"within_splits": 0, "across_splits": 0}
    assert facts["unseen_entities"] == {"valid": 0, "test": 0}
    assert set(dataset.train[:, [0, 2]].ravel().tolist()) == set(range(len(dataset.entities)))


def test_seed_decides_the_splits() -> None:
    fingerprints = [patterns(seed).fingerprint for seed in (*SEEDS, *SEEDS)]
    assert fingerprints[: len(SEEDS)] == fingerprints[len(SEEDS) :]
    assert len(set(fingerprints)) == len(SEEDS)
    assert patterns().fingerprint == fingerprints[0] == "9f9948714836ed04"


def test_facts_are_the_same_for_every_seed(facts: Graph) -> None:
    assert facts == graph(patterns(99), "train", "valid", "test")


def test_cardinality_classes(dataset: Dataset) -> None:
    classes = dict(
        zip(dataset.relations.labels, cardinality_classes(dataset.train, len(dataset.relations)), strict=True)
    )
    named = {relation: pattern.replace("-to-", "-") for relation, pattern in PATTERN_OF.items() if "-to-" in pattern}
    assert set(named.values()) == {"1-1", "1-N", "N-1", "N-N"}
    assert {relation: classes[relation] for relation in named} == named
    assert classes["northeast_neighbour"] == "1-1"


# What each pattern promises of all facts.


def test_symmetric(facts: Graph) -> None:
    assert facts["opponent_of"] == inverse(facts["opponent_of"])
    assert all(head != tail for head, tail in facts["opponent_of"])


@pytest.mark.parametrize("relation", [relation for relation in PATTERN_OF if relation != "opponent_of"])
def test_all_others_are_antisymmetric(facts: Graph, relation: str) -> None:
    assert facts[relation].isdisjoint(inverse(facts[relation]))


@pytest.mark.parametrize("relation", ["outranks", "kind_of"])
def test_order_is_transitive(facts: Graph, relation: str) -> None:
    assert compose(facts[relation], facts[relation]) < facts[relation]


def test_officers_of_a_troop_are_all_comparable(facts: Graph) -> None:
    order = facts["outranks"] | inverse(facts["outranks"])
    assert compose(order, order) == order | {(officer, officer) for officer, _ in order}


def test_inverse(facts: Graph) -> None:
    assert facts["teaches"] == inverse(facts["taught_by"])


def test_only_the_pair_is_inverse(facts: Graph) -> None:
    for one, other in product(PATTERN_OF, repeat=2):
        if PATTERN_OF[one] != "inverse" and one != other:
            assert facts[one].isdisjoint(facts[other] | inverse(facts[other]))


def test_composition(facts: Graph) -> None:
    north, east = facts["north_neighbour"], facts["east_neighbour"]
    assert facts["northeast_neighbour"] == compose(north, east) == compose(east, north)


@pytest.mark.parametrize("relation", ["north_neighbour", "east_neighbour", "northeast_neighbour"])
def test_one_to_one(facts: Graph, relation: str) -> None:
    assert len({head for head, _ in facts[relation]}) == len({tail for _, tail in facts[relation]})
    assert len({head for head, _ in facts[relation]}) == len(facts[relation])


def test_hierarchy_is_a_tree_of_several_levels(facts: Graph) -> None:
    above = facts["kind_of"]
    direct = above - compose(above, above)
    kinds = {kind for pair in above for kind in pair}
    assert len(direct) == len({kind for kind, _ in direct}) == len(kinds) - 1
    depth = [sum(kind == head for head, _ in above) for kind in kinds]
    assert sorted(set(depth)) == [0, 1, 2, 3, 4, 5, 6]


def test_many_to_one_and_one_to_many(facts: Graph) -> None:
    for members in (facts["in_province"], inverse(facts["zone_contains"])):
        assert len({site for site, _ in members}) == len(members)
        assert len({region for _, region in members}) == 8


# What is held out follows from train.


def symmetric(train: Graph) -> Pairs:
    return inverse(train["opponent_of"])


def between(train: Graph) -> Pairs:
    return compose(train["outranks"], train["outranks"])


def same_troop(train: Graph) -> Pairs:
    return compose(train["outranks"] | inverse(train["outranks"]), train["likes"])


def north_of_or_south_of_a_member(train: Graph) -> Pairs:
    north = train["north_neighbour"]
    return compose(north | inverse(north), train["in_province"])


def east_of_or_west_of_a_member(train: Graph) -> Pairs:
    east = train["east_neighbour"]
    return compose(train["zone_contains"], east | inverse(east))


def step(along: str, across: str) -> Callable[[Graph], Pairs]:
    """Return what infers steps ``along``: by a diagonal and a step across, or by a parallel step."""

    def infer(train: Graph) -> Pairs:
        there, diagonal, back = train[across], train["northeast_neighbour"], inverse(train[across])
        by_diagonal = compose(diagonal, back) | compose(back, diagonal)
        parallel = compose(compose(there, train[along]), back) | compose(compose(back, train[along]), there)
        return by_diagonal | parallel

    return infer


def both_legs(train: Graph) -> Pairs:
    north, east = train["north_neighbour"], train["east_neighbour"]
    return compose(north, east) | compose(east, north)


def on_the_way_up(train: Graph) -> Pairs:
    return compose(train["kind_of"], train["kind_of"])


RULES: dict[str, Callable[[Graph], Pairs]] = {
    "opponent_of": symmetric,
    "likes": same_troop,
    "outranks": between,
    "teaches": lambda train: inverse(train["taught_by"]),
    "taught_by": lambda train: inverse(train["teaches"]),
    "in_province": north_of_or_south_of_a_member,
    "zone_contains": east_of_or_west_of_a_member,
    "north_neighbour": step("north_neighbour", "east_neighbour"),
    "east_neighbour": step("east_neighbour", "north_neighbour"),
    "northeast_neighbour": both_legs,
    "kind_of": on_the_way_up,
}


@pytest.mark.parametrize("relation", PATTERN_OF)
def test_held_out_triples_follow_from_train_and_nothing_false_does(
    train: Graph, held_out: Graph, facts: Graph, relation: str
) -> None:
    inferred = RULES[relation](train)
    assert held_out[relation] <= inferred
    assert inferred <= facts[relation]


# By name.


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RELENS_DATA", raising=False)
    return tmp_path


def test_catalogue_generates_it(home: Path) -> None:
    dataset = load_dataset("Patterns", offline=True)
    assert dataset.name == "patterns"
    assert dataset.folder is None
    assert dataset.fingerprint == CATALOG["patterns"].fingerprint == patterns(0).fingerprint
    assert dataset.counts == CATALOG["patterns"].counts
    assert locate_folder(CATALOG["patterns"]) is None
    assert list(home.iterdir()) == []
    with pytest.raises(DatasetError, match="did you mean 'patterns'"):
        load_dataset("pattern")


@pytest.mark.usefixtures("home")
def test_command_line_says_that_it_is_generated() -> None:
    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(data, list(arguments), catch_exceptions=False)

    (line,) = (line for line in invoke("list").stdout.splitlines() if line.startswith(" patterns"))
    assert line.split()[-1] == "generated"
    (entry,) = (entry for entry in json.loads(invoke("list", "--json").stdout)["datasets"] if entry["generated"])
    assert (entry["name"], entry["folder"]) == ("patterns", None)
    assert invoke("show", "patterns").stdout.startswith("patterns, fingerprint 9f9948714836ed04, generated\n")
    assert json.loads(invoke("show", "patterns", "--json").stdout)["folder"] is None
    got = invoke("get", "patterns", "--offline")
    assert got.stdout == ""
    assert "patterns is generated when needed; its content is as expected" in got.stderr
    assert json.loads(invoke("get", "patterns", "--json").stdout)["fetched"] is False
