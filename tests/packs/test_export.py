"""Packing on the device equals packing on the CPU, and models stream into packs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.data.dataset import Dataset  # noqa: E402
from relens.data.known_answers import KnownAnswers  # noqa: E402
from relens.models import MODELS  # noqa: E402
from relens.packs.export import Ranker, pack_on_device  # noqa: E402
from relens.packs.packing import pack_scores  # noqa: E402

DATASET = Dataset.from_labels(
    "tiny",
    train=[(f"e{i}", f"r{i % 3}", f"e{(3 * i + 1) % 9}") for i in range(18)],
    valid=[("e0", "r0", "e5"), ("e3", "r1", "e2"), ("e4", "r2", "e4")],
    test=[("e1", "r0", "e7"), ("e8", "r2", "e0")],
)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(2, 9), st.booleans(), st.integers(0, 10**6))
def test_the_device_packs_what_the_cpu_packs(n_models, n_rows, n_columns, with_gaps, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 3, (n_models, n_rows, n_columns)).astype(np.float32) / 2
    answer = rng.integers(0, n_columns, n_rows).astype(np.int32)
    lists = [[e for e in range(n_columns) if e != answer[q] and rng.random() < 0.3] for q in range(n_rows)]
    known = (np.cumsum([0, *map(len, lists)]), np.array([e for row in lists for e in row], dtype=np.int32))
    scales = rng.random(n_models) + 0.1 if with_gaps else None
    expected = pack_scores(list(scores), answer, known, scales)
    found = pack_on_device(torch.from_numpy(scores), answer, known, scales)
    for name in ("answer", "n_candidates", "always_ahead", "counts", "contested"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
        assert getattr(found, name).dtype == getattr(expected, name).dtype, name
    if with_gaps:
        np.testing.assert_array_equal(found.gaps, expected.gaps)


def tiny_models() -> dict:
    models = {}
    triples = torch.from_numpy(np.array(DATASET.train)).long()
    for seed, name in enumerate(("transe", "complex", "rotate")):
        model = MODELS[name].build(len(DATASET.entities), len(DATASET.relations), {"dim": 6}, triples)
        model.initialise("norm", torch.Generator().manual_seed(seed))
        models[name] = model
    return models


@pytest.mark.parametrize("budget", [1, 2**30])
def test_models_stream_into_the_pack_of_their_scores(tmp_path, budget):
    models = tiny_models()
    ranker = Ranker(models, DATASET, memory_budget=budget)
    scales = ranker.fit_scales()
    packed = ranker.pack("test", tmp_path / "test", scales)
    queries = DATASET.queries("test")
    known = KnownAnswers.build(list(DATASET.splits.values()), len(DATASET.entities), len(DATASET.relations))
    directed = torch.from_numpy(queries.relation + 3 * queries.direction).long()
    with torch.no_grad():
        scores = [m.score(m.encode(torch.from_numpy(queries.anchor).long(), directed)).numpy() for m in models.values()]
    expected = pack_scores(scores, queries.answer, known.other_answers(queries), scales)
    assert packed.models == ("transe", "complex", "rotate")
    assert packed.provenance.filter_splits == ("train", "valid", "test")
    assert packed.provenance.fingerprint == DATASET.fingerprint
    np.testing.assert_array_equal(packed.answer, expected.answer)
    np.testing.assert_array_equal(packed.contested, expected.contested)
    np.testing.assert_array_equal(packed.gaps, expected.gaps)


def test_running_out_of_memory_halves_the_blocks(tmp_path, monkeypatch):
    ranker = Ranker(tiny_models(), DATASET)
    scores = ranker._scores

    def scarce(queries, entities):
        if len(queries) > 1:
            raise torch.OutOfMemoryError("no memory for so many")
        return scores(queries, entities)

    expected = ranker.pack("valid", tmp_path / "plenty", None)
    monkeypatch.setattr(ranker, "_scores", scarce)
    found = ranker.pack("valid", tmp_path / "scarce", None)
    assert ranker.batches.rows == 1
    np.testing.assert_array_equal(found.contested, expected.contested)
    monkeypatch.setattr(ranker, "_scores", lambda *asked: (_ for _ in ()).throw(torch.OutOfMemoryError("none")))
    with pytest.raises(torch.OutOfMemoryError, match="none"):
        ranker.pack("valid", tmp_path / "none", None)
    assert not (tmp_path / "none").exists()
