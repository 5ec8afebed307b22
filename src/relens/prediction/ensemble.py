"""The ensemble of a run: asked about its graph, with names in and names out."""

from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt

from relens.data.catalog import load_dataset
from relens.data.dataset import Dataset
from relens.data.queries import DIRECTIONS, EVALUATED, Direction, Queries
from relens.ensemble.inputs import INPUTS
from relens.ensemble.weights import EnsembleWeights
from relens.errors import DatasetError, InputError, MissingExtraError, RanksError, WeightsError, nearest
from relens.prediction.candidate_ranking import CandidateRanking, Place
from relens.prediction.confidence import Confidence
from relens.prediction.names import Names, the_direction
from relens.prediction.records import Prediction, Predictions, Vote
from relens.prediction.scoring import LoadedModels
from relens.progress import SILENT, Progress
from relens.runs import Run

if TYPE_CHECKING:
    import torch

KnownFacts = Literal["drop", "mark"]
KNOWN: tuple[KnownFacts, KnownFacts] = ("drop", "mark")
Question = tuple[str, str, str]
"""Labels of the anchor and the relation, and the direction."""


@dataclass(frozen=True)
class _Asked:
    """A query in ids; ``direction`` is 0 for tails, 1 for heads."""

    anchor: int
    relation: int
    direction: int


class Ensemble:
    """The models of a run, combined by its weights: ``Ensemble.open("runs/mine").predict(head=…, relation=…)``.

    Attributes:
        run: where models, weights and validation ranks are.
        dataset: the graph.
        weights: of each group.
        models: of the run; only those with a weight in a question asked so far are loaded.
    """

    def __init__(self, run: Run, dataset: Dataset, weights: EnsembleWeights, device: "torch.device | str") -> None:
        self.run, self.dataset, self.weights = run, dataset, weights
        self.models = LoadedModels(run, dataset, device)
        self._names = Names(dataset)
        self._shares = weights.normalised()  # (G, N)
        triples = np.concatenate(list(dataset.splits.values()))
        self._loops = np.bincount(triples[triples[:, 0] == triples[:, 2], 1], minlength=len(dataset.relations)) > 0
        place = {label: r for r, label in enumerate(weights.relations)}
        self._groups = weights.grouping.table[[place[label] for label in dataset.relations.labels]]  # (R, 2)

    @classmethod
    def open(
        cls, run: Run | Path | str, weights: str | None = None, device: "torch.device | str | None" = None
    ) -> Self:
        """Open a run for questions.

        Args:
            run: a run with trained models, or its path.
            weights: their name in the run; ``dsc`` by default, or the only ones there are.
            device: where models run; None for where the run was ranked, see ``ranked_device``. There, ranks equal
                those of the evaluation.
        """
        run = run if isinstance(run, Run) else Run.open(run)
        check_models(run)
        found = EnsembleWeights.load(run.default_weights(weights))
        dataset = _graph(run, found)
        _check_ranks(run, found)
        return cls(run, dataset, found, device or ranked_device(run))

    def predict(
        self,
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        top: int = 10,
        known: KnownFacts = "mark",
    ) -> Predictions:
        """Return the best answers: tails where ``head`` is given, heads where ``tail`` is.

        The entity asked about is no answer for a relation that has no fact of an entity with itself; it keeps its
        place in the ranks of the others, as in the evaluation.

        Args:
            relation: its label.
            head, tail: the entity asked about, one of the two; its label or readable name.
            top: how many new answers.
            known: ``drop`` leaves facts of the data set out; ``mark`` shows the best of them, at most ``top``, in
                addition, and says which split has them.
        """
        _check(top, known)
        asked = self._asked(head, tail, relation)
        return self._predictions(asked, self._standings([asked])[0], top, known)

    def predict_many(
        self, queries: Iterable[Question], *, top: int = 10, known: KnownFacts = "mark", progress: Progress = SILENT
    ) -> Iterator[Predictions]:
        """Yield the best answers to each query (anchor, relation, direction), in order, a batch in memory at a time.

        The arguments are those of ``predict``. Progress is shown where ``queries`` has a length.
        """
        _check(top, known)
        shown, total = (progress, len(queries)) if isinstance(queries, Sized) else (SILENT, 0)
        waiting = iter(queries)
        with shown.task("predicting", total) as advance:
            while batch := [self.resolve(*query) for query in islice(waiting, self.models.rows)]:
                for asked, standing in zip(batch, self._standings(batch), strict=True):
                    yield self._predictions(asked, standing, top, known)
                advance(len(batch))

    def rank_of(self, answer: str, *, relation: str, head: str | None = None, tail: str | None = None) -> float:
        """Return the rank of one answer, other known answers removed: what the evaluation calls its rank."""
        asked = self._asked(head, tail, relation)
        return self._standings([asked])[0].place(self._names.entity(answer)).rank

    def resolve(self, anchor: str, relation: str, direction: str) -> _Asked:
        """Return a query in ids, or say what is wrong with its names."""
        if direction not in DIRECTIONS:
            raise InputError(f"unknown direction {direction!r}: expected what is asked for, tail or head")
        return _Asked(self._names.entity(anchor), self._names.relation(relation), DIRECTIONS.index(direction))

    def _asked(self, head: str | None, tail: str | None, relation: str) -> _Asked:
        direction = the_direction(head, tail)
        return self.resolve(str(head if tail is None else tail), relation, DIRECTIONS[direction])

    def _group(self, asked: _Asked) -> int:
        return int(self._groups[asked.relation, asked.direction])

    def _standings(self, batch: list[_Asked]) -> list[CandidateRanking]:
        """Score up to ``models.rows`` queries, each with the models that have a weight in its group."""
        table = self.weights.table[[self._group(asked) for asked in batch]]  # (b, N)
        columns = np.array([(asked.anchor, asked.relation, asked.direction, 0, 0) for asked in batch]).T
        queries = Queries.from_columns(columns)  # what is asked for has no answer and no triple
        rows: list[list[npt.NDArray[np.float32]]] = [[] for _ in batch]
        for model, of_model in zip(self.weights.models, table.T, strict=True):
            asking = np.flatnonzero(of_model)
            if len(asking):
                scores = self.models.scores(model, queries[asking])
                for position, row in zip(asking, scores, strict=True):
                    rows[position].append(row)
        return [self._standing(asked, np.stack(row)) for asked, row in zip(batch, rows, strict=True)]

    def _standing(self, asked: _Asked, scores: npt.NDArray[np.float32]) -> CandidateRanking:
        weights = self.weights.table[self._group(asked)]
        scales = None if self.weights.gap_scales is None else self.weights.gap_scales[weights > 0]
        known = np.fromiter(self._known(asked), dtype=np.int64)
        return CandidateRanking(scores, known, weights[weights > 0], INPUTS[self.weights.input], scales)

    def _known(self, asked: _Asked) -> dict[int, str]:
        return self.dataset.stated_answers.answers_to(asked.anchor, asked.relation, asked.direction)

    def _predictions(self, asked: _Asked, standing: CandidateRanking, top: int, known: KnownFacts) -> Predictions:
        labels, names, group = self.dataset.entities.labels, self.dataset.names, self._group(asked)
        split_of = self._known(asked)
        answers = []
        without = None if self._loops[asked.relation] else asked.anchor
        for entity, place in standing.best(top, with_known=known == "mark", without=without):
            split = split_of.get(entity)
            answers.append(
                Prediction(
                    entity=labels[entity],
                    name=names.get(labels[entity]),
                    rank=place.rank,
                    score=standing.score(entity),
                    known=split,
                    confidence=None if split else self._confident(group, bool(split_of), place),
                    votes=self._votes(group, standing.model_ranks(entity)),
                )
            )
        direction: Direction = DIRECTIONS[asked.direction]
        relation = self.dataset.relations.labels[asked.relation]
        return Predictions(labels[asked.anchor], relation, direction, standing.n_candidates, tuple(answers))

    def _votes(self, group: int, ranks: list[float]) -> tuple[Vote, ...]:
        weights = self._shares[group]
        used = np.flatnonzero(weights)
        votes = [Vote(self.weights.models[i], rank, float(weights[i])) for i, rank in zip(used, ranks, strict=True)]
        return tuple(sorted(votes, key=lambda vote: -vote.weight))

    def _confident(self, group: int, answered: bool, place: Place) -> float | None:
        return None if self._confidence is None else self._confidence.share_at(group, answered, place)

    @cached_property
    def _confidence(self) -> Confidence | None:
        if not self.run.has_ranks("valid"):
            return None
        try:
            return Confidence.of_valid(self.run.ranks("valid"), self.weights, len(self.dataset.entities))
        except (RanksError, WeightsError):  # ranks of other models or other data say nothing about these weights
            return None


def ranked_device(run: Run) -> str:
    """Return what a run was ranked on, ``cpu`` or ``cuda``; the CPU where that is not known or not here."""
    import torch

    ranked = (run.made_by() or {}).get("device")
    return "cuda" if ranked == "cuda" and torch.cuda.is_available() else "cpu"


def _check(top: int, known: str) -> None:
    if top < 1:
        raise InputError(f"top is {top}, expected at least 1: how many new answers to return")
    if known not in KNOWN:
        raise InputError(f"unknown way {known!r} to treat known facts; {nearest(known, KNOWN)}")


def check_models(run: Run) -> None:
    """Refuse a run that has ranks and no model, whatever its weights."""
    if not run.model_names() and any(map(run.has_ranks, EVALUATED)):
        raise InputError(
            f"{run.path} holds ranks only, and predictions need the models that made them: `relens run DATASET` trains "
            f"some. What ranks alone can tell you, `relens evaluate {run.path}` and `relens report {run.path}` do."
        )


def _graph(run: Run, weights: EnsembleWeights) -> Dataset:
    """Load the data set that the models of the weights were trained on; the parameters stay on the disk."""
    try:
        from relens.training.trained import TrainedModel
    except ImportError as error:
        raise MissingExtraError("predicting with trained models", "train") from error
    needed = [model for model, used in zip(weights.models, weights.table.max(axis=0), strict=True) if used]
    missing = [model for model in needed if model not in run.model_names()]
    if missing:
        raise InputError(
            f"{run.path} has weights of {', '.join(needed)}, but no trained model {missing[0]!r}: predictions need the "
            f"models themselves, not their ranks alone. Train it with `relens train`, or choose other weights."
        )
    trained = {model: TrainedModel.open(run.model_path(model) / "trained") for model in needed}
    ranked = (run.made_by() or {}).get("models", {})
    for model, found in trained.items():
        if ranked.get(model, found.digest) != found.digest:
            raise InputError(f"{run.path}: {model} was trained again after the run was ranked: {_again(run)}")
    source = trained[needed[0]].source
    try:
        dataset = load_dataset(source)
    except DatasetError as error:
        raise DatasetError(f"{run.path} was trained on {source!r}, which cannot be loaded here: {error}") from error
    if dataset.fingerprint != weights.dataset[1]:
        raise WeightsError(
            f"the weights were fitted on {weights.dataset[0]!r} ({weights.dataset[1]}), {source!r} is now another "
            f"graph ({dataset.fingerprint}): train, rank and search again, or put the old graph back"
        )
    return dataset


def _check_ranks(run: Run, weights: EnsembleWeights) -> None:
    """Refuse weights that were fitted on other validation ranks than the run has now."""
    if not (weights.fitted_on and run.has_ranks("valid")):
        return
    valid = run.ranks("valid")
    if weights.models != valid.models and set(weights.models) <= set(valid.models):
        valid = valid.select_models(weights.models)
    if weights.fitted_on != valid.digest:
        raise WeightsError(
            f"{run.path}: the weights were fitted on other validation ranks ({weights.fitted_on}) than the run has now "
            f"({valid.digest}): {_again(run)}"
        )


def _again(run: Run) -> str:
    return f"rank and search again, e.g. `relens rank {run.path} --force; relens search {run.path}`"
