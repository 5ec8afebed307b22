import numpy as np
import pytest

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.reports.graph import relation_patterns


def by_loops(dataset: Dataset) -> list[tuple[float, float, int]]:
    facts = {tuple(row) for triples in dataset.splits.values() for row in triples.tolist()}
    found = []
    for r in range(len(dataset.relations)):
        mine = [fact for fact in facts if fact[1] == r]
        shares = [
            sum((t, s, h) in facts for h, _, t in mine) / max(1, len(mine)) for s in range(len(dataset.relations))
        ]
        symmetric, shares[r] = shares[r], 0.0
        inverse = max(shares)
        found.append((symmetric, inverse, shares.index(inverse) if inverse else -1))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_patterns_are_those_of_loops_over_the_facts(seed):
    rng = np.random.default_rng(seed)
    names = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rng.integers(0, [6, 4, 6], size=(60, 3))]
    dataset = Dataset.from_labels("random", train=names[:40], valid=names[40:50], test=names[50:])
    found = relation_patterns(dataset)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == by_loops(dataset)


def test_the_generated_graph_shows_its_patterns():
    dataset = load_dataset("patterns")
    found, at = relation_patterns(dataset), dataset.relations.id_of
    assert found.symmetric[at("opponent_of")] == 1
    assert found.symmetric[at("outranks")] == 0
    assert found.inverse_of[at("teaches")] == at("taught_by")
    assert found.inverse_of[at("outranks")] == -1
