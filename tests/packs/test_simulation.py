"""Simulated models: they follow from the seed, in any number of blocks and threads, and differ as they are told to."""

from dataclasses import replace

import numpy as np
import pytest

from relens.ensemble.objective import model_mrrs
from relens.packs import simulation as simulate
from relens.packs.simulation import Simulation
from tests import oracles
from tests.ensemble.cases import Recorder
from tests.random_packs import assert_same

SMALL = Simulation(("a", "b", "c"), (3, 0, 5), 12, seed=4)


def test_queries_ask_both_directions_of_every_triple():
    queries = SMALL.queries("valid")
    assert len(queries) == 16
    assert np.bincount(queries.relation).tolist() == [6, 0, 10]
    assert queries.direction.tolist() == [0, 1] * 8
    assert queries.triple.tolist() == np.repeat(np.arange(8), 2).tolist()
    assert queries.answer.max() < 12
    assert not np.array_equal(queries.answer, SMALL.queries("test").answer)


@pytest.mark.kernels
@pytest.mark.parametrize("gaps", [True, False])
def test_packed_ranks_are_those_of_the_scores(gaps):
    packed = SMALL.packed("valid", gaps=gaps)
    queries = SMALL.queries("valid")
    scores = SMALL.scores(queries, "valid", 0)
    assert scores.shape == (3, 16, 12)
    assert (packed.gaps is not None, packed.gap_scales is not None) == (gaps, gaps)
    for q, answer in enumerate(queries.answer.tolist()):
        by_model = [oracles.doubled_ranks(scores[i, q].tolist(), answer) for i in range(3)]
        ahead, contested = oracles.packed_row(by_model, answer)
        assert packed.answer[:, q].tolist() == [ranks[answer] for ranks in by_model]
        assert packed.always_ahead[q] == ahead
        mine = packed.contested[:, packed.offsets[q] : packed.offsets[q + 1]]
        assert [tuple(row) for row in mine.T.tolist()] == contested
    assert packed.relations == ("relation 0", "relation 1", "relation 2")
    assert (packed.provenance.dataset, packed.provenance.split) == ("simulated", "valid")


def test_blocks_and_threads_change_nothing_but_the_draws(monkeypatch):
    monkeypatch.setattr(simulate, "BLOCK", 3)
    assert_same(SMALL.packed("test"), SMALL.packed("test", jobs=3))
    scores = [SMALL.scores(SMALL.queries("test"), "test", block) for block in range(6)]
    assert [block.shape[1] for block in scores] == [3, 3, 3, 3, 3, 1]


def test_both_splits_share_skills_and_gap_scales():
    valid, test = SMALL.packed("valid"), SMALL.packed("test")
    assert np.array_equal(valid.gap_scales, test.gap_scales)
    assert valid.provenance.fingerprint == test.provenance.fingerprint
    assert SMALL.skills().shape == (3, 2, 3)


def test_everything_follows_from_the_seed():
    assert_same(SMALL.packed("valid"), SMALL.packed("valid"))
    other = replace(SMALL, seed=5).packed("valid")
    assert not np.array_equal(other.queries.answer, SMALL.packed("valid").queries.answer)
    assert other.provenance.fingerprint != SMALL.packed("valid").provenance.fingerprint


def test_skilled_models_rank_better_and_disagreeing_ones_contest_more():
    plain = Simulation(("a", "b"), (60,), 100, level=(2.0, 0.5), skill=0.0, noise=0.1, seed=1)
    handicapped = replace(plain, handicap=(0.0, 1.0))
    assert np.array_equal(handicapped.skills()[0], -np.array([[0.0, 1.0]] * 2))
    good, bad = model_mrrs(handicapped.packed("valid"))
    assert good > bad + 0.1
    alike, apart = (replace(plain, agreement=share).packed("valid").n_contested for share in (0.99, 0.2))
    assert alike < apart / 2
    steady, lucky = (replace(plain, noise=noise).packed("valid").n_contested for noise in (0.01, (0.01, 2.0)))
    assert steady < lucky / 2


def test_progress_counts_blocks():
    progress = Recorder()
    SMALL.packed("valid", progress=progress)
    assert [(d, t, sum(done)) for d, t, done in progress.tasks] == [("simulating valid", 1, 1)]


def test_members_of_a_family_see_much_alike():
    family = Simulation(
        tuple("abcd"), (400,), 200, level=(2.0, 0.0), skill=0.3, agreement=0.0, families=(0, 1, 0, 1), kinship=0.8
    )
    queries = family.queries("valid")
    scores = np.concatenate([family.scores(queries, "valid", block) for block in range(5)], axis=1)
    seen = np.corrcoef(scores.reshape(4, -1))
    assert seen[0, 2] == pytest.approx(0.8, abs=0.02)
    assert seen[0, 1] == pytest.approx(0.0, abs=0.02)
    assert scores.std() == pytest.approx(1.0, abs=0.02)
    standing = np.corrcoef(scores[:, np.arange(320), queries.answer[:320]])
    assert standing[1, 3] > 0.6 > abs(standing[1, 2]) + 0.3
