"""The ensemble of a run: ask for missing facts of its graph by name."""

from collections.abc import Iterable, Iterator, Sized
from copy import copy
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np

from relens.data.dataset import Dataset
from relens.data.queries import DIRECTIONS, Queries
from relens.data.restriction import Restriction
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, nearest
from relens.prediction.answer_ranking import RankedAnswers
from relens.prediction.candidates import CandidatesOption, restriction_for
from relens.prediction.classification import (
    ClassificationEvaluation,
    ClassifiedTriple,
    classify_triples,
    evaluate_classification,
    fit,
)
from relens.prediction.confidence import Confidence
from relens.prediction.discovery import Discovery, NewFact, Request, Wanted
from relens.prediction.entity_answers import best_answers, paths_to
from relens.prediction.facts import Facts, GivenFacts
from relens.prediction.fitted import kept_scale, kept_thresholds
from relens.prediction.likely import likely
from relens.prediction.members import LoadedModels
from relens.prediction.names import Names, the_direction
from relens.prediction.opening import no_propagation, open_voting
from relens.prediction.predictions import Predictions, ScorePath
from relens.prediction.questions import KNOWN, Asked, KnownFacts, QueryIds, Question
from relens.prediction.relation_scale import RelationRanker, RelationScale
from relens.prediction.relations import (
    RelationEvaluation,
    RelationPredictions,
    evaluate_relations,
    predict_relations,
)
from relens.prediction.thresholds import Thresholds
from relens.prediction.triples import ScoredTriple, score_triples, triples_in_ids
from relens.prediction.voting import Voting, in_threads
from relens.progress import SILENT, Progress
from relens.runs import Run, open_run

if TYPE_CHECKING:
    import torch


class Ensemble:
    """The models of a run, combined by its weights.

    For example::

        ensemble = relens.Ensemble.open("runs/patterns")
        found = ensemble.predict(head="site_11_20", relation="northeast_neighbour", top=3)

    Attributes:
        run: the run with models, weights and validation ranks.
        voting: the models and their weights, ready to rank candidates.
        name: the name of the weights in the run; None if the run does not have them.
    """

    def __init__(self, voting: Voting, name: str | None = None) -> None:
        self.run, self.voting, self.name = voting.models.run, voting, name
        self._names, self._calibrated = Names(voting.dataset), voting.confidence
        self._thresholds: dict[tuple[int, str | None], Thresholds] = {}
        self._scales: list[RelationScale] = []

    @classmethod
    def open(
        cls,
        run: Run | Path | str,
        weights: str | None = None,
        device: "torch.device | str" = "auto",
        *,
        facts: Facts | None = None,
        candidates: CandidatesOption | None = None,
        trust: bool = False,
    ) -> Self:
        """Open a run for predictions.

        Args:
            run: a run with trained models or models of others, or its path.
            weights: the name of the weights; None for ``dsc``, or the only ones there are.
            device: where models run; ``auto`` for the device that the run was ranked on, see ``ranked_device``. On
                that device, ranks equal those of the evaluation.
            facts: more facts, also of entities that are not in the data set: a file of tab-separated triples, or rows
                (head, relation, tail). Models that propagate read them; the others abstain on new entities.
            candidates: the entities that may be answers: ``observed`` (those that train has on that side of the
                relation), ``types`` (those that share a type with one of them), a file or a list of entities. None for
                all. See ``among``.
            trust: load members of others, which runs their code: pickles of PyKEEN, and Python objects.
        """
        run = open_run(run)
        voting, name = open_voting(run, weights=weights, device=device, facts=facts, trust=trust)
        ensemble = cls(voting, name)
        return ensemble if candidates is None else ensemble.among(candidates)

    def among(self, candidates: CandidatesOption | None) -> Self:
        """Return an ensemble of the same models, in memory once, whose answers are restricted; None for all entities.

        Ranks are then those of ``relens.evaluate_among`` with the same candidates, and there is no confidence: it was
        calibrated among all entities. Verdicts have thresholds of their own. Of relations, those compete that both
        entities may have.

        Args:
            candidates: as for ``open``.
        """
        if candidates is None and self.restriction is None:
            return self
        restriction = None if candidates is None else restriction_for(self.dataset, candidates)
        confidence = self._calibrated if restriction is None else None
        found = copy(self)  # what was fitted is shared
        found.voting = Voting(self.weights, self.models, confidence, restriction)
        return found

    @property
    def dataset(self) -> Dataset:
        """The graph, with the given facts."""
        return self.voting.dataset

    @property
    def facts(self) -> GivenFacts | None:
        """Facts that were given beside the graph of training, if any."""
        return self.voting.facts

    @property
    def weights(self) -> EnsembleWeights:
        """The weights of each group."""
        return self.voting.weights

    @property
    def models(self) -> LoadedModels:
        """The models of the run, each loaded when a question first needs it."""
        return self.voting.models

    @property
    def confidence(self) -> Confidence | None:
        """The probability of answers; None without a calibration of these weights and models, or if restricted."""
        return self.voting.confidence

    @property
    def restriction(self) -> Restriction | None:
        """The entities that may be answers; None for all."""
        return self.voting.restriction

    @property
    def propagating(self) -> tuple[str, ...]:
        """The names of the models with a weight in some group that score by paths through the graph."""
        return self.voting.propagating

    def predict(
        self,
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        top: int = 10,
        known: KnownFacts = "mark",
        explain: bool = False,
    ) -> Predictions:
        """Return the best answers: tails if ``head`` is given, heads if ``tail`` is.

        If no fact of the relation links an entity to itself, the given entity is left out of the answers. It keeps its
        rank, as in the evaluation: ``anchor_rank`` of the result.

        Args:
            relation: the label or readable name of the relation.
            head, tail: the given entity, one of the two; its label or readable name.
            top: how many new answers.
            known: ``mark`` adds the best known facts, at most ``top``, with their split; ``drop`` leaves them out.
            explain: add the paths that carried the score of each answer; one backward pass of a model per answer.
        """
        asked = Asked(top, known, explain)
        self._check(asked)
        query = self._query(head, tail, relation)
        found = best_answers(self.voting, query, self.voting.rankings([query])[0], asked)
        self._check_someone_is_left(found)
        return found

    def predict_many(
        self,
        queries: Iterable[Question],
        *,
        top: int = 10,
        known: KnownFacts = "mark",
        explain: bool = False,
        progress: Progress = SILENT,
    ) -> Iterator[Predictions]:
        """Yield the best answers to each query (anchor, relation, direction) in order, one batch in memory at a time.

        The arguments are those of ``predict``. Progress is shown if ``queries`` has a length.
        """
        asked = Asked(top, known, explain)
        self._check(asked)
        shown, total = (progress, len(queries)) if isinstance(queries, Sized) else (SILENT, 0)
        waiting = iter(queries)
        with shown.task("predicting", total) as advance:
            while batch := [self.resolve(*query) for query in islice(waiting, self.models.rows)]:
                ranked = list(zip(batch, self.voting.rankings(batch), strict=True))
                if explain:  # models trace one pass at a time
                    yield from (best_answers(self.voting, *pair, asked) for pair in ranked)
                else:
                    yield from in_threads(lambda pair: best_answers(self.voting, *pair, asked), ranked)
                advance(len(batch))

    def discover(
        self, *, parts: Path | None = None, progress: Progress = SILENT, **asked: Unpack[Request]
    ) -> Iterator[NewFact]:
        """Return an iterator over the best facts that are not in the data set, best first.

        Memory does not grow with the number of pairs. Ranks are those among all entities, also where ``among``
        restricts other answers. ``docs/discover.md`` defines the order and what is left out.

        Args:
            parts: a folder that keeps finished relations, so that the same call resumes; it is left for the caller to
                remove. None keeps nothing.
            progress: receives progress and notes.
            asked: what is asked for, see ``Wanted``.
        """
        return Discovery(self.among(None), Wanted(**asked)).facts(parts, progress)

    def rank_of(self, answer: str, *, relation: str, head: str | None = None, tail: str | None = None) -> float:
        """Return the rank of one answer as the evaluation counts it, other known answers removed."""
        query = self._query(head, tail, relation)
        return self.voting.rankings([query])[0].place(self._names.entity(answer)).rank

    def rank_answers(self, queries: Queries, *, progress: Progress = SILENT) -> RankedAnswers:
        """Return the ranks and scores of the answers to many queries in ids, as the evaluation ranks them."""
        return self.voting.rank_answers(queries, progress)

    def score(self, triples: Facts, *, progress: Progress = SILENT) -> tuple[ScoredTriple, ...]:
        """Return the score of each triple, the ranks of its tail and its head, and its probability, in order.

        Args:
            triples: a file of tab-separated triples, or rows (head, relation, tail); labels or readable names. One
                error lists all unknown names.
            progress: shows how many answers are ranked.
        """
        return score_triples(self.voting, triples_in_ids(triples, self._names), progress)

    def predict_relations(
        self, *, head: str, tail: str, top: int = 10, known: KnownFacts = "mark", progress: Progress = SILENT
    ) -> RelationPredictions:
        """Return the best relations from ``head`` to ``tail``, on a scale that validation chose.

        Args:
            head, tail: the two entities; labels or readable names.
            top: how many new relations.
            known: ``mark`` adds the best known relations, at most ``top``, with their split; ``drop`` leaves them out.
            progress: shows how many relations are scored.
        """
        (found,) = self.predict_relations_many([(head, tail)], top=top, known=known, progress=progress)
        self._check_someone_is_left(found)
        return found

    def predict_relations_many(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        top: int = 10,
        known: KnownFacts = "mark",
        progress: Progress = SILENT,
    ) -> Iterator[RelationPredictions]:
        """Yield the best relations between each pair (head, tail), in order; see ``predict_relations``."""
        asked = Asked(top, known)
        self._check(asked)
        ids = np.array([self.resolve_pair(*pair) for pair in pairs]).reshape(-1, 2)
        return predict_relations(self, ids, asked, progress)

    def evaluate_relations(
        self, split: str = "test", *, name: str = "ensemble", seed: int = 0, progress: Progress = SILENT
    ) -> RelationEvaluation:
        """Return how well the ensemble finds the relation of the triples of a split."""
        return evaluate_relations(self, name, split, seed=seed, progress=progress)

    def classify(self, triples: Facts, *, seed: int = 0, progress: Progress = SILENT) -> tuple[ClassifiedTriple, ...]:
        """Return a verdict on each triple, in order: true or false by thresholds that are fitted on validation.

        Args:
            triples: a file of tab-separated triples, or rows (head, relation, tail); labels or readable names. One
                error lists all unknown names.
            seed: seed of the sampled negatives, for a data set without given ones.
            progress: shows how many answers are ranked.
        """
        ids = triples_in_ids(triples, self._names)
        return classify_triples(self.voting, ids, self.thresholds(seed, progress), progress)

    def evaluate_classification(
        self, split: str = "test", *, name: str = "ensemble", seed: int = 0, progress: Progress = SILENT
    ) -> ClassificationEvaluation:
        """Return how well the ensemble tells the true triples of a split from false ones."""
        thresholds = self.thresholds(seed, progress)
        return evaluate_classification(self.voting, name, split, thresholds, seed=seed, progress=progress)

    def thresholds(self, seed: int = 0, progress: Progress = SILENT) -> Thresholds:
        """Return the thresholds of verdicts: those that the run keeps, or else fitted when they are first needed.

        Args:
            seed: seed of the sampled negatives.
            progress: shows how many answers are ranked.
        """
        key = seed, None if self.restriction is None else self.restriction.name
        if key not in self._thresholds:
            kept, keeps = None, self._keeps and self.restriction is None
            if keeps:
                kept = kept_thresholds(self.run, str(self.name), self.weights, self.dataset, seed)
            if kept is None:
                progress.note(f"fitting the thresholds of verdicts on validation{self._remedy(seed) if keeps else ''}")
            self._thresholds[key] = kept or fit(self.voting, seed, progress)
        return self._thresholds[key]

    def choose_relation_scale(self, progress: Progress = SILENT) -> RelationScale:
        """Return the scale of relations: the one that the run keeps, or else chosen when it is first needed."""
        if not self._scales:
            kept = kept_scale(self.run, str(self.name), self.weights) if self._keeps else None
            if kept is None:
                progress.note(f"choosing the scale of relations on validation{self._remedy() if self._keeps else ''}")
            self._scales.append(kept or self.relation_ranker.choose_scale(progress))
        return self._scales[0]

    @property
    def _keeps(self) -> bool:
        """Whether the run may keep what was fitted for these weights; given facts change ranks and scores."""
        return self.name is not None and self.facts is None

    def _remedy(self, seed: int = 0) -> str:
        """Say how the run keeps what it lacks, or has of other weights or models."""
        sown = f" --seed {seed}" if seed else ""
        command = f"relens calibrate {self.run.path} --weights {self.name}{sown}"
        return f"; `{command}` does it once, and the run keeps it"

    @cached_property
    def relation_ranker(self) -> RelationRanker:
        """The models, ready to rank relations."""
        return RelationRanker(self.models, self.weights, self.voting.groups, self.voting.trained)

    @cached_property
    def likely(self) -> Restriction:
        """The entities that probably belong on a side of a relation, see ``relens.prediction.likely``."""
        return likely(self.dataset)

    def resolve_pair(self, head: str, tail: str) -> tuple[int, int]:
        """Return the ids of two entities that all models were trained on; any other name raises an error."""
        pair = self._names.entity(head), self._names.entity(tail)
        for entity in pair:
            if self.facts is not None and self.facts.is_new[entity]:
                raise InputError(
                    f"{self.dataset.entities.labels[entity]!r} is not in the graph of training: relations are ranked "
                    f"between entities that all models know"
                )
        return pair

    def explain(
        self, answer: str, *, relation: str, head: str | None = None, tail: str | None = None
    ) -> tuple[ScorePath, ...]:
        """Return the paths that carried the score of one answer, for each propagating model with a weight.

        There are at most three per model, most important first, and none if no such path is short enough.
        """
        self._check(Asked(explain=True))
        return paths_to(self.voting, self._query(head, tail, relation), self._names.entity(answer))

    def resolve(self, anchor: str, relation: str, direction: str) -> QueryIds:
        """Return a query in ids; an unknown or ambiguous name raises an error."""
        if direction not in DIRECTIONS:
            raise InputError(f"unknown direction {direction!r}: expected the missing side, tail or head")
        return QueryIds(self._names.entity(anchor), self._names.relation(relation), DIRECTIONS.index(direction))

    def _query(self, head: str | None, tail: str | None, relation: str) -> QueryIds:
        direction = the_direction(head, tail)
        return self.resolve(str(head if tail is None else tail), relation, DIRECTIONS[direction])

    def _check(self, asked: Asked) -> None:
        """Raise an error if a request makes no sense, or no model can fulfil it."""
        if asked.top < 1:
            raise InputError(f"`top={asked.top}` asks for no answers: expected at least 1")
        if asked.known not in KNOWN:
            raise InputError(f"unknown value `known={asked.known}`; {nearest(asked.known, KNOWN)}")
        if asked.explain and not self.propagating:
            shown = "`explain=True` shows the paths that a score travelled along"
            raise InputError(f"{shown}, {no_propagation(self.voting)}")

    def _check_someone_is_left(self, found: Predictions | RelationPredictions) -> None:
        """Raise an error if a restriction leaves no answer to a single question."""
        if self.restriction is not None and not found.answers:
            other = "Choose other `candidates=…`, or ask without them for all"
            what = "entities" if isinstance(found, Predictions) else "relations"
            raise InputError(f"{found.question}: {found.notes[0]}. {other} {what}")
