"""Leaks between splits, against plain loops over all pairs of facts."""

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relens.data import leakage
from relens.data.dataset import Dataset
from relens.data.leakage import dataset_rules, find_rules, given_away, redundant_relations
from relens.data.patterns import patterns

N_ENTITIES, N_RELATIONS = 5, 4
Triple = tuple[int, int, int]

triples = st.lists(
    st.tuples(st.integers(0, N_ENTITIES - 1), st.integers(0, N_RELATIONS - 1), st.integers(0, N_ENTITIES - 1)),
    max_size=40,
)


def array(rows: list[Triple]) -> npt.NDArray[np.int32]:
    return np.array(rows, dtype=np.int32).reshape(-1, 3)


def counterpart(fact: Triple, relation: int, *, inverse: bool) -> Triple:
    head, _, tail = fact
    return (tail, relation, head) if inverse else (head, relation, tail)


def slow_rules(rows: list[Triple], nearly: float, support: int, most: int = 100) -> dict[tuple[int, int, bool], int]:
    """Count the facts of each relation whose counterpart in each other relation is a fact."""
    facts = {fact for fact in rows if fact[0] != fact[2]}
    between = {frozenset((h, t)): sum({h, t} == {fact[0], fact[2]} for fact in facts) for h, _, t in facts}
    facts = {fact for fact in facts if between[frozenset((fact[0], fact[2]))] <= most}
    found = {}
    for source, target, inverse in product(range(N_RELATIONS), range(N_RELATIONS), (False, True)):
        mine = [fact for fact in facts if fact[1] == source]
        n = sum(counterpart(fact, target, inverse=inverse) in facts for fact in mine)
        if (source != target or inverse) and n >= support and n >= nearly * len(mine):
            found[source, target, inverse] = n
    return found


def as_dict(rules: leakage.Rules) -> dict[tuple[int, int, bool], int]:
    keys = zip(rules.source.tolist(), rules.target.tolist(), rules.inverse.tolist(), strict=True)
    return dict(zip(keys, rules.counterparts.tolist(), strict=True))


@settings(max_examples=300)
@given(triples, st.sampled_from([0.3, 0.5, 0.8, 1.0]), st.integers(1, 4), st.sampled_from([2, 3, 100]))
def test_rules_are_those_of_a_loop_over_all_facts(rows, nearly, support, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "NEARLY", nearly)
        patch.setattr(leakage, "SUPPORT", support)
        patch.setattr(leakage, "MOST_FACTS", most)
        rules = find_rules(array(rows), N_RELATIONS)
    assert as_dict(rules) == slow_rules(rows, nearly, support, most)
    assert sorted(rules.keys.tolist()) == rules.keys.tolist()


@settings(max_examples=300)
@given(triples, triples, st.integers(1, 3))
def test_triples_that_train_gives_away_are_those_of_a_loop(train, held_out, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "SUPPORT", 1)
        patch.setattr(leakage, "_BLOCK", block)
        rules = find_rules(array(train + held_out), N_RELATIONS)
        found = given_away(array(held_out), array(train), rules)
    known, holds = set(train), as_dict(rules)
    for i, fact in enumerate(held_out):
        head, relation, tail = fact
        loop = head == tail
        by = {
            (source == relation, inverse)
            for source, target, inverse in holds
            if target == relation and not loop and counterpart(fact, source, inverse=inverse) in known
        }
        assert found.repeated[i] == (fact in known)
        assert found.inverse[i] == ((False, True) in by)
        assert found.duplicate[i] == ((False, False) in by)
        assert found.symmetric[i] == ((True, True) in by)
        assert found.linked[i] == (not loop and any({h, t} == {head, tail} for h, _, t in known))
        assert found.by_pairs[i] == bool(found.inverse[i] or found.duplicate[i])


@given(triples)
def test_no_rule_about_two_relations_is_left_when_redundant_ones_are_dropped(rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "SUPPORT", 1)
        rules = find_rules(array(rows), N_RELATIONS)
        size = np.bincount(array(sorted(set(rows)))[:, 1], minlength=N_RELATIONS)
        dropped = redundant_relations(rules, size, tuple("abcd"))
        left = find_rules(array([row for row in rows if row[1] not in dropped]), N_RELATIONS)
    assert left.symmetric.all()
    for relation in dropped:
        partners = {b if a == relation else a for a, b, _ in as_dict(rules) if relation in (a, b)} - {relation}
        kept = partners - set(dropped)
        assert any((size[other], "dcba"[other]) > (size[relation], "dcba"[relation]) for other in kept)


def test_the_generated_graph_has_one_inverse_pair_and_one_symmetric_relation():
    dataset = patterns()
    labels, rules = dataset.relations.labels, dataset_rules(dataset)
    assert {(labels[a], labels[b], inverse) for a, b, inverse in as_dict(rules)} == {
        ("teaches", "taught_by", True),
        ("taught_by", "teaches", True),
        ("opponent_of", "opponent_of", True),
    }


def test_many_relations_need_no_array_of_their_squares():
    n = 1_000_000
    rows = np.stack([np.arange(n), np.arange(n), np.arange(n) + 1], axis=1).astype(np.int32)
    assert len(find_rules(rows, n)) == 0


@pytest.mark.parametrize("shuffled", ["tails", "relations"])
@pytest.mark.parametrize("seed", range(5))
def test_a_shuffled_graph_has_no_rules(shuffled, seed):
    dataset = patterns()
    rng = np.random.default_rng(seed)
    splits = {name: rows.copy() for name, rows in dataset.splits.items()}
    for rows in splits.values():
        column = 2 if shuffled == "tails" else 1
        rows[:, column] = rng.permutation(rows[:, column])
    mixed = Dataset("mixed", dataset.entities, dataset.relations, **splits)
    rules = dataset_rules(mixed)
    assert all(rules.symmetric), as_dict(rules)
