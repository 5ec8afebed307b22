"""The restriction ``likely`` against loops over a small graph."""

import numpy as np
import pytest

from relens.data.dataset import Dataset
from relens.prediction import likely as module
from relens.prediction.likely import likely


def by_loop(dataset, relation, direction, share):
    """Return the entities of a slot, and of all slots of whose entities enough are in it, too."""
    column = {0: 2, 1: 0}
    slots = {
        (r, d): {int(row[column[d]]) for row in dataset.train if row[1] == r}
        for r in range(len(dataset.relations))
        for d in (0, 1)
    }
    own = slots[relation, direction]
    companions = [slot for slot in slots.values() if slot & own and len(slot & own) >= share * len(slot)]
    return sorted(own.union(*companions))


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_a_slot_admits_the_entities_of_its_companions(share, monkeypatch):
    monkeypatch.setattr(module, "SHARE", share)
    rng = np.random.default_rng(3)
    triples = [(f"e{h}", f"r{(h // 6 + t // 9) % 5}", f"e{t}") for h, t in rng.integers(0, 30, (70, 2)).tolist()]
    dataset = Dataset.from_labels("random", train=triples, valid=[("e0", "never", "e1")], test=[])
    found = likely(dataset)
    sizes = set()
    for relation in range(len(dataset.relations)):
        for direction in (0, 1):
            expected = by_loop(dataset, relation, direction, share)
            assert found.allowed(relation, direction).tolist() == expected
            sizes.add(len(expected))
    assert 0 in sizes, "a relation without train facts admits nobody"
    assert len(sizes) > 3


def test_entities_that_train_does_not_have_in_a_slot_are_likely_by_the_company_they_keep():
    train = [("ann", "born_in", "rome"), ("bob", "born_in", "oslo"), ("cid", "lives_in", "oslo"),
             ("ann", "lives_in", "rome"), ("rome", "in", "italy")]  # fmt: skip
    dataset = Dataset.from_labels("town", train=train)
    found, labels = likely(dataset), dataset.entities.labels
    heads = [labels[entity] for entity in found.allowed(dataset.relations.id_of("born_in"), 1).tolist()]
    assert heads == ["ann", "bob", "cid"], "cid lives somewhere, as ann does, who was born somewhere"
