"""Negatives are drawn fairly from what is left, the same for the same seed."""

import numpy as np
import pytest

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.negatives import sample_negatives, write_sampled
from relens.errors import DatasetError


def graph(seed: int = 0, n_entities: int = 25, n_triples: int = 120) -> Dataset:
    """A random graph with hubs, so that queries have very different numbers of known answers."""
    rng = np.random.default_rng(seed)
    heads, tails = (rng.random((2, n_triples)) ** 2 * n_entities).astype(int)
    rows = list(dict.fromkeys(zip(heads.tolist(), rng.integers(0, 2, n_triples).tolist(), tails.tolist(), strict=True)))
    labelled = [(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in rows]
    return Dataset.from_labels("graph", train=labelled[:50], valid=labelled[50:65], test=labelled[65:])


def allowed(dataset: Dataset, split: str) -> list[set[int]]:
    """Return what may be drawn for each query, by obvious loops over all triples."""
    facts = {tuple(row) for triples in dataset.splits.values() for row in triples.tolist()}
    left = []
    for head, relation, tail in dataset.splits[split].tolist():
        left.append({e for e in range(len(dataset.entities)) if (head, relation, e) not in facts})
        left.append({e for e in range(len(dataset.entities)) if (e, relation, tail) not in facts})
    return left


@pytest.mark.parametrize("per_query", [1, 5, 15, 100])
@pytest.mark.parametrize("seed", [0, 1])
def test_negatives_are_distinct_and_never_known_answers(per_query, seed):
    dataset = graph()
    found = sample_negatives(dataset, per_query, seed)
    assert set(found) == {"valid", "test"}
    for split, candidates in found.items():
        assert candidates.filter_splits == ("train", "valid", "test")
        assert candidates.negatives.shape == (2 * len(dataset.splits[split]), per_query)
        for row, left in zip(candidates.negatives.tolist(), allowed(dataset, split), strict=True):
            drawn = row[: min(per_query, len(left))]
            assert set(drawn) <= left
            assert len(set(drawn)) == len(drawn)
            assert row[len(drawn) :] == [-1] * (per_query - len(drawn))
        short = [q for q, left in enumerate(allowed(dataset, split)) if len(left) < per_query]
        assert candidates.short_queries().tolist() == short
        if per_query == 100:
            assert [set(row) - {-1} for row in candidates.negatives.tolist()] == allowed(dataset, split)


def test_the_seed_decides_and_nothing_else():
    dataset = graph()
    one, again, other = (sample_negatives(dataset, 5, seed) for seed in (3, 3, 4))
    for split in ("valid", "test"):
        assert np.array_equal(one[split].negatives, again[split].negatives)
        assert not np.array_equal(one[split].negatives, other[split].negatives)
    assert not np.array_equal(one["valid"].negatives[:10], one["test"].negatives[:10])


def test_every_entity_that_is_left_is_drawn_equally_often():
    dataset = graph()
    left = allowed(dataset, "valid")[0]
    drawn = [sample_negatives(dataset, 6, seed)["valid"].negatives[0] for seed in range(600)]
    counts = np.bincount(np.concatenate(drawn), minlength=len(dataset.entities))
    expected = 600 * 6 / len(left)
    assert {entity for entity, count in enumerate(counts) if count} == left
    spread = np.sqrt(expected * (1 - 6 / len(left)))
    assert np.abs(counts[sorted(left)] - expected).max() < 4.5 * spread


def test_none_per_query_is_refused():
    with pytest.raises(DatasetError, match="`per_query=0` is too small: expected 1 or more negatives"):
        sample_negatives(graph(), 0)


def test_the_folder_is_a_data_set_with_candidates(tmp_path):
    dataset = graph()
    written = write_sampled(dataset, tmp_path / "sampled", 5, seed=2)
    found = load_dataset(tmp_path / "sampled")
    assert found.name == "sampled"
    assert found.fingerprint == dataset.fingerprint == written.fingerprint
    assert found.entities == dataset.entities
    for split, candidates in sample_negatives(dataset, 5, seed=2).items():
        assert np.array_equal(found.candidates[split].negatives, candidates.negatives)
        assert found.candidates[split].source == "sampled by relens: 5 per query, seed 2"


def test_only_its_own_folders_are_replaced(tmp_path):
    dataset = graph()
    write_sampled(dataset, tmp_path / "sampled", 5)
    with pytest.raises(DatasetError, match=r"exists already: pass `force=True` to .* choose another `folder=…`"):
        write_sampled(dataset, tmp_path / "sampled", 6)
    assert load_dataset(tmp_path / "sampled").candidates["test"].per_query == 5
    write_sampled(dataset, tmp_path / "sampled", 6, force=True)
    assert load_dataset(tmp_path / "sampled").candidates["test"].per_query == 6
    (tmp_path / "precious").mkdir()
    with pytest.raises(DatasetError, match="exists already: choose another `folder=…`"):
        write_sampled(dataset, tmp_path / "precious", 5, force=True)
    assert (tmp_path / "precious").is_dir()
