"""The generated graph ``patterns``: each relation follows one known pattern, and train implies valid and test.

The graph has five parts: players (symmetry), officers (antisymmetry, N-to-N), scholars (inversion), sites on a map
(1-to-1, composition, N-to-1, 1-to-N) and kinds of things (hierarchy). A label encodes the place of its entity, so
that a reader can check a prediction: ``officer_2_03`` has rank 3 in troop 2, ``site_04_17`` lies in row 4 and column
17, ``kind_101`` is below ``kind_10``.

The facts are the same for every seed; the seed selects the held-out facts. Each fact has a list of proofs. A proof is
a set of other facts from which the pattern implies the fact. A fact is held out only if one complete proof stays in
train. Therefore a model that has learnt the pattern can answer every query, and train contains every entity.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product

import numpy as np

from relens.data.dataset import Dataset
from relens.seeding import generator

Triple = tuple[str, str, str]
Proof = tuple[Triple, ...]
Fact = tuple[Triple, Sequence[Proof]]

PATTERN_OF = {
    "opponent_of": "symmetric",
    "likes": "N-to-N",
    "outranks": "antisymmetric",
    "teaches": "inverse",
    "taught_by": "inverse",
    "in_province": "N-to-1",
    "zone_contains": "1-to-N",
    "north_neighbour": "1-to-1",
    "east_neighbour": "1-to-1",
    "northeast_neighbour": "composition",
    "kind_of": "hierarchy",
}
"""The pattern of each relation, by label. A relation comes before the relations that its proofs use."""

HELD_OUT = 100
"""Number of triples per relation in valid, and in test."""

MATCHES, SIDE = 9, 6
TROOPS, TROOP_SIZE = 4, 22
HOBBIES, HOBBIES_PER_TROOP = 12, 6
SCHOOLS, GENERATIONS, GENERATION_SIZE = 5, 4, 6
ROWS, COLUMNS, BAND = 23, 24, 3
KINDS, ROOT = 127, 1

STEPS = {"north_neighbour": (1, 0), "east_neighbour": (0, 1), "northeast_neighbour": (1, 1)}
"""Rows up and columns right of each step on the map."""

LOOPS = (
    (("north_neighbour", "east_neighbour"), ("northeast_neighbour",)),
    (("east_neighbour", "north_neighbour"), ("northeast_neighbour",)),
    (("north_neighbour", "east_neighbour"), ("east_neighbour", "north_neighbour")),
)
"""Pairs of paths with the same start and end."""


def patterns(seed: int = 0) -> Dataset:
    """Generate the graph. The same seed gives the same triples in the same order."""
    facts = dict(_facts())
    held_out = _hold_out(facts, generator(seed, "patterns"))
    valid = [triple for triples in held_out.values() for triple in triples[:HELD_OUT]]
    test = [triple for triples in held_out.values() for triple in triples[HELD_OUT:]]
    elsewhere = {*valid, *test}
    train = [triple for triple in facts if triple not in elsewhere]
    return Dataset.from_labels("patterns", train=train, valid=valid, test=test)


def _hold_out(facts: dict[Triple, Sequence[Proof]], random: np.random.Generator) -> dict[str, list[Triple]]:
    """Choose the triples of valid and test by relation. All facts of one proof of each triple stay in train."""
    chosen: dict[str, list[Triple]] = {relation: [] for relation in PATTERN_OF}
    held_out: set[Triple] = set()
    needed: set[Triple] = set()
    for relation, of_relation in chosen.items():
        triples = [triple for triple in facts if triple[1] == relation]
        for triple in (triples[place] for place in random.permutation(len(triples))):
            proofs = [proof for proof in facts[triple] if held_out.isdisjoint(proof)]
            if proofs and triple not in needed and len(of_relation) < 2 * HELD_OUT:
                of_relation.append(triple)
                held_out.add(triple)
                needed.update(min(proofs, key=lambda proof: len(set(proof) - needed)))
    return chosen


def _facts() -> Iterator[Fact]:
    """Yield every fact once, with its proofs."""
    yield from _players()
    yield from _officers()
    yield from _tastes()
    yield from _scholars()
    yield from _neighbours()
    yield from _regions("north_neighbour", _in_province)
    yield from _regions("east_neighbour", _in_zone)
    yield from _kinds()


def _players() -> Iterator[Fact]:
    """Symmetric: each player of a match is an opponent of all players on the other side. Proof: the reverse triple."""
    for match, one, other in product(range(MATCHES), range(SIDE), range(SIDE)):
        red, blue = f"player_{match}_red{one}", f"player_{match}_blue{other}"
        there, back = (red, "opponent_of", blue), (blue, "opponent_of", red)
        yield there, [(back,)]
        yield back, [(there,)]


def _officer(troop: int, rank: int) -> str:
    return f"officer_{troop}_{rank:02d}"


def _outranks(troop: int, upper: int, lower: int) -> Triple:
    return _officer(troop, upper), "outranks", _officer(troop, lower)


def _officers() -> Iterator[Fact]:
    """Antisymmetric: the order of ranks in each troop. Proof: an officer between the two."""
    for troop, (upper, lower) in product(range(TROOPS), combinations(range(TROOP_SIZE), 2)):
        between = range(upper + 1, lower)
        proofs = [(_outranks(troop, upper, rank), _outranks(troop, rank, lower)) for rank in between]
        yield _outranks(troop, upper, lower), proofs


def _tastes() -> Iterator[Fact]:
    """N-to-N: a troop shares its hobbies. Proof: another officer of the same troop likes it too."""
    for troop in range(TROOPS):
        first = troop * HOBBIES // TROOPS
        for hobby in range(first, first + HOBBIES_PER_TROOP):
            likes = [(_officer(troop, rank), "likes", f"hobby_{hobby % HOBBIES:02d}") for rank in range(TROOP_SIZE)]
            proofs: list[list[Proof]] = [[] for _ in likes]
            for upper, lower in combinations(range(TROOP_SIZE), 2):
                proofs[upper].append((_outranks(troop, upper, lower), likes[lower]))
                proofs[lower].append((_outranks(troop, upper, lower), likes[upper]))
            yield from zip(likes, proofs, strict=True)


def _scholars() -> Iterator[Fact]:
    """Inverse pair: each generation of a school teaches the next. Proof: the inverse triple."""
    for school, generation in product(range(SCHOOLS), range(GENERATIONS - 1)):
        for one, other in product(range(GENERATION_SIZE), repeat=2):
            teacher, pupil = f"scholar_{school}_{generation}_{one}", f"scholar_{school}_{generation + 1}_{other}"
            teaches, taught_by = (teacher, "teaches", pupil), (pupil, "taught_by", teacher)
            yield teaches, [(taught_by,)]
            yield taught_by, [(teaches,)]


def _neighbours() -> Iterator[Fact]:
    """1-to-1 and composition: steps on the map. Proof: the other steps of a loop."""
    proofs: dict[Triple, list[Proof]] = {step: [] for step in _steps()}
    for (one, other), row, column in product(LOOPS, range(ROWS), range(COLUMNS)):
        loop = [*_walk(one, row, column), *_walk(other, row, column)]
        for step in loop if proofs.keys() >= set(loop) else ():
            proofs[step].append(tuple(further for further in loop if further != step))
    yield from proofs.items()


def _steps() -> Iterator[Triple]:
    """Yield every step with both ends on the map."""
    for relation, (up, right) in STEPS.items():
        for row, column in product(range(ROWS - up), range(COLUMNS - right)):
            yield _step(relation, row, column)


def _walk(path: tuple[str, ...], row: int, column: int) -> Iterator[Triple]:
    """Yield the steps of a path from a site."""
    for relation in path:
        yield _step(relation, row, column)
        row, column = row + STEPS[relation][0], column + STEPS[relation][1]


def _step(relation: str, row: int, column: int) -> Triple:
    up, right = STEPS[relation]
    return _site(row, column), relation, _site(row + up, column + right)


def _site(row: int, column: int) -> str:
    return f"site_{row:02d}_{column:02d}"


def _in_province(row: int, column: int) -> Triple:
    return _site(row, column), "in_province", f"province_{column // BAND}"


def _in_zone(row: int, column: int) -> Triple:
    return f"zone_{row // BAND}", "zone_contains", _site(row, column)


def _regions(step: str, membership: Callable[[int, int], Triple]) -> Iterator[Fact]:
    """N-to-1 or 1-to-N: a step along a region stays in it. Proof: a neighbour of the site is in the region."""
    up, right = STEPS[step]
    on_map = set(_steps())
    for row, column in product(range(ROWS), range(COLUMNS)):
        ahead = (_step(step, row, column), membership(row + up, column + right))
        behind = (_step(step, row - up, column - right), membership(row - up, column - right))
        yield membership(row, column), [proof for proof in (ahead, behind) if proof[0] in on_map]


def _kinds() -> Iterator[Fact]:
    """Hierarchy: a kind belongs to all its ancestors in a binary tree. Proof: an ancestor in between."""
    for kind in range(ROOT + 1, KINDS + 1):
        above = list(_above(kind))
        for place, ancestor in enumerate(above):
            yield _kind_of(kind, ancestor), [(_kind_of(kind, mid), _kind_of(mid, ancestor)) for mid in above[:place]]


def _above(kind: int) -> Iterator[int]:
    """Yield the ancestors of a kind, nearest first."""
    while kind > ROOT:
        kind //= 2
        yield kind


def _kind_of(kind: int, ancestor: int) -> Triple:
    return f"kind_{kind:b}", "kind_of", f"kind_{ancestor:b}"
