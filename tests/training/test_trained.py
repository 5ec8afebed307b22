from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import torch

from relens.data.dataset import Dataset
from relens.data.vocabulary import Vocabulary
from relens.errors import DamagedError, InputError
from relens.models import MODELS
from relens.training.loop import TrainingResult, new_model
from relens.training.trained import RECORD, TENSORS, TrainedModel, save_trained
from tests.training.graphs import N_ENTITIES, N_RELATIONS, random_triples, small_settings

GRAPH = Dataset(
    "tiny",
    Vocabulary("entity", tuple(f"e{i:02d}" for i in range(N_ENTITIES))),
    Vocabulary("relation", tuple(f"r{i}" for i in range(N_RELATIONS))),
    train=random_triples(0),
    valid=random_triples(1, 4),
    test=random_triples(2, 4),
)


RESULT = TrainingResult(step=40, best_step=20, best_mrr=0.5, ending="steps")


def saved(model: str, folder):
    settings = small_settings(model)
    built = new_model(settings, GRAPH.train, N_ENTITIES, N_RELATIONS).eval()
    return built, save_trained(built, settings, RESULT, GRAPH, folder)


@pytest.mark.parametrize("model", MODELS)
def test_a_saved_model_scores_the_same(model, tmp_path) -> None:
    built, stored = saved(model, tmp_path / "m")
    opened = TrainedModel.open(tmp_path / "m")
    assert opened == stored
    assert (opened.settings, opened.dataset) == (small_settings(model), "tiny")
    assert TrainingResult(**opened.result) == RESULT
    loaded = opened.load(GRAPH)
    anchor, relation = torch.arange(6), torch.arange(6)
    with torch.no_grad():
        expected = built.score(built.encode(anchor, relation))
        assert torch.equal(loaded.score(loaded.encode(anchor, relation)), expected)
    assert not loaded.training


def test_other_data_and_other_ids_are_refused(tmp_path) -> None:
    _, stored = saved("transe", tmp_path / "m")
    with pytest.raises(InputError, match=r"was trained on tiny .*pass the data set of training"):
        stored.load(replace(GRAPH, train=random_triples(5)))
    turned = np.array([N_ENTITIES - 1, N_RELATIONS - 1, N_ENTITIES - 1])
    renumbered = Dataset(
        "tiny",
        Vocabulary("entity", GRAPH.entities.labels[::-1]),
        Vocabulary("relation", GRAPH.relations.labels[::-1]),
        **{split: turned - triples for split, triples in GRAPH.splits.items()},
    )
    assert renumbered.fingerprint == GRAPH.fingerprint
    with pytest.raises(InputError, match="pass the data set of training"):
        stored.load(renumbered)


def test_damaged_models_are_refused_by_name(tmp_path) -> None:
    _, stored = saved("transe", tmp_path / "m")
    (tmp_path / "m" / TENSORS).write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"model.safetensors is damaged: its checksum is .* Train the model again"):
        stored.load(GRAPH)
    older = replace(stored, checksum="")
    with pytest.raises(
        DamagedError, match=rf"model.safetensors is damaged: it does not have the digest {stored.digest}"
    ):
        older.load(GRAPH)
    with pytest.raises(InputError, match=r"model.safetensors cannot be read"):
        replace(older, digest=sha256(b"nothing").hexdigest()[:16]).load(GRAPH)
    (tmp_path / "m" / RECORD).write_text("{}")
    with pytest.raises(InputError, match="is not a 'relens trained model' record"):
        TrainedModel.open(tmp_path / "m")
    with pytest.raises(InputError, match="does not exist"):
        TrainedModel.open(tmp_path / "nowhere")


def test_a_record_that_asks_for_a_larger_model_is_refused_before_memory_is_taken(tmp_path) -> None:
    _, stored = saved("transe", tmp_path / "m")
    for dim in (10**9, 10**18):
        wide = replace(stored.settings, options={**stored.settings.options, "dim": dim})
        with pytest.raises(InputError, match=r"cannot be read: .*ask for \(\d+, \d+\)|`dim` of TransE is .* beyond"):
            replace(stored, settings=wide).load(GRAPH)


def test_no_flipped_bit_of_a_model_goes_unnoticed(tmp_path) -> None:
    _, stored = saved("transe", tmp_path / "m")
    file = tmp_path / "m" / TENSORS
    content, draws = file.read_bytes(), np.random.default_rng(0)
    for bit in draws.integers(8 * len(content), size=100).tolist():
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with pytest.raises(InputError, match=r"model.safetensors is damaged"):
            stored.load(GRAPH)
    file.write_bytes(content)
    stored.load(GRAPH)
