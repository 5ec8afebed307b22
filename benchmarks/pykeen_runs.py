"""PyKEEN's side of the training benchmark: its own loop, sampler, loss and evaluator, set up to be fast."""

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.losses import NSSALoss
from pykeen.models import ERModel, RotatE, TransE
from pykeen.training import SLCWATrainingLoop, TrainingCallback
from pykeen.triples import CoreTriplesFactory
from torch import Tensor

from relens.data.dataset import Dataset
from relens.models.base import KGEModel
from relens.models.embedding import SCALE

PREFETCHED = 2
"""Batches that PyTorch's loader has each worker prepare ahead."""
MRR = "both.realistic.inverse_harmonic_mean_rank"

# It warns of batches found automatically on a CPU, at every evaluation; here they are given.
logging.getLogger("torch_max_mem").setLevel(logging.ERROR)


class _EnoughError(Exception):
    """Ends PyKEEN's loop, which only knows whole epochs."""


class _Clock(TrainingCallback):
    """Times the steps after some for warming up, until at least some seconds have passed."""

    def __init__(self, warm_up: int, seconds: float, wait: Callable[[], None]) -> None:
        super().__init__()
        self.steps, self.elapsed = 0, math.nan
        self._warm_up, self._seconds, self._wait, self._begun = warm_up, seconds, wait, math.nan

    def post_batch(self, epoch: int, batch: Any, **kwargs: Any) -> None:
        """Count a step."""
        self.steps += 1
        if self.steps == self._warm_up:
            self._wait()
            self._begun = perf_counter()
        elif self.steps > self._warm_up and perf_counter() - self._begun >= self._seconds:
            self._wait()
            self.elapsed = perf_counter() - self._begun
            raise _EnoughError

    @property
    def pace(self) -> float:
        """Steps per second."""
        return (self.steps - self._warm_up) / self.elapsed


def triples_of(dataset: Dataset, split: str) -> Tensor:
    """Return the triples of a split as PyKEEN wants them, (n, 3) int64."""
    return torch.from_numpy(dataset.splits[split].astype(np.int64))


def build(name: str, dimension: int, dataset: Dataset, gamma: float, device: torch.device) -> ERModel:
    """Return an untrained model whose entities have ``dimension`` real numbers, with the self-adversarial loss.

    TransE goes without the normalisation of all entities after each step, which relens does not have either.
    """
    factory = CoreTriplesFactory(triples_of(dataset, "train"), len(dataset.entities), len(dataset.relations))
    common: dict[str, Any] = {
        "triples_factory": factory,
        "loss": NSSALoss(margin=gamma, adversarial_temperature=1.0),
        "random_seed": 0,
    }
    if name == "transe":
        model: ERModel = TransE(embedding_dim=dimension, scoring_fct_norm=1, entity_constrainer=None, **common)
    else:
        model = RotatE(embedding_dim=dimension // 2, **common)  # PyKEEN counts complex numbers
    return model.to(device)


class Training:
    """PyKEEN's sLCWA loop: uniform negatives of its own for each positive, drawn by workers of the data loader.

    Adam is PyTorch's fused one, incomplete batches are dropped, memory is pinned for the GPU, nothing is probed or
    reported on the way.
    """

    def __init__(self, model: ERModel, dataset: Dataset, *, batch: int, negatives: int, lr: float) -> None:
        self._factory = CoreTriplesFactory(triples_of(dataset, "train"), len(dataset.entities), len(dataset.relations))
        self._batch, self._device = batch, model.device
        self._loop = SLCWATrainingLoop(
            model=model,
            triples_factory=self._factory,
            optimizer="adam",
            optimizer_kwargs={"lr": lr, "fused": True},
            negative_sampler="basic",
            negative_sampler_kwargs={"num_negs_per_pos": negatives},
            automatic_memory_optimization=False,
        )

    def pace(self, workers: int, seconds: float, wait: Callable[[], None]) -> float:
        """Train for some seconds and return the steps per second, start and the first steps not counted."""
        # What workers had prepared before the first step must be used up, too.
        clock = _Clock(2 + (PREFETCHED + 1) * workers, seconds, wait)
        with suppress(_EnoughError):
            self._loop.train(
                self._factory,
                num_epochs=2**30,
                batch_size=self._batch,
                drop_last=True,
                num_workers=workers,
                pin_memory=self._device.type == "cuda",
                use_tqdm=False,
                callbacks=clock,
            )
        return clock.pace


class _Evaluator(RankBasedEvaluator):
    """Filtered ranks and their MRR, nothing else; keeps the size of the batches.

    Attributes:
        batch: triples per batch of the last evaluation.
    """

    def __init__(self) -> None:
        super().__init__(filtered=True, metrics=["mean_reciprocal_rank"], add_defaults=False)
        self.batch = 0
        self._sizes: list[int] = []

    def process_scores_(self, hrt_batch: Tensor, *args: Any, **kwargs: Any) -> None:
        """Rank the answers of a batch."""
        self._sizes.append(len(hrt_batch))
        super().process_scores_(hrt_batch, *args, **kwargs)

    def clear(self) -> None:
        """Begin anew, with smaller batches perhaps."""
        self._sizes = []
        super().clear()

    def finalize(self) -> Any:
        """Return the metrics."""
        self.batch = max(self._sizes)
        return super().finalize()


class Ranking:
    """PyKEEN's rank-based evaluator on some triples, both directions, known triples of all splits filtered out."""

    def __init__(self, model: ERModel, dataset: Dataset, triples: npt.NDArray[np.int32]) -> None:
        self._model, self._triples = model, torch.from_numpy(triples.astype(np.int64))
        self._known = [triples_of(dataset, split) for split in dataset.splits]
        self._evaluator = _Evaluator()

    def __call__(self, batch: int | None) -> float:
        """Rank all queries, and return their MRR; None for as many triples at a time as fit into the GPU's memory."""
        results = self._evaluator.evaluate(
            self._model, self._triples, batch_size=batch, use_tqdm=False, additional_filter_triples=self._known
        )
        return float(results.get_metric(MRR))

    @property
    def batch(self) -> int:
        """Triples per batch of the last evaluation."""
        return self._evaluator.batch


def copy_parameters(ours: KGEModel, theirs: ERModel, name: str) -> None:
    """Give PyKEEN's model the parameters of ours."""
    entity, relation = ours.entity.detach(), ours.relation.detach()
    if name == "rotate":
        # Rows of relens hold real parts, then imaginary parts; those of PyKEEN alternate, and relations are numbers on
        # the unit circle instead of angles.
        entity = torch.view_as_real(torch.complex(*entity.chunk(2, dim=1))).flatten(1)
        relation = torch.view_as_real(torch.exp(1j * relation * math.pi / SCALE)).flatten(1)
    with torch.no_grad():
        for table, values in zip(
            (theirs.entity_representations[0], theirs.relation_representations[0]), (entity, relation), strict=True
        ):
            table._embeddings.weight.copy_(values)
