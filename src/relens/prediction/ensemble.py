"""The ensemble of a run: predict missing facts of its graph by name."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

import numpy as np
import numpy.typing as npt

from relens.data.queries import DIRECTIONS, SPLITS, Queries
from relens.data.restriction import Restriction
from relens.devices import pick_device
from relens.ensemble.inputs import INPUTS
from relens.ensemble.weights import EnsembleWeights
from relens.errors import InputError, nearest
from relens.prediction.answer_ranking import AnswerRanker, RankedAnswers
from relens.prediction.candidate_ranking import CandidateRanking, Newcomers
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
from relens.prediction.evidence import Candidates, self_related
from relens.prediction.facts import GIVEN, Facts, GivenFacts
from relens.prediction.judging import compared_with
from relens.prediction.likely import likely
from relens.prediction.members import LoadedModels
from relens.prediction.names import Names, the_direction
from relens.prediction.opening import (
    check_models,
    check_ranks,
    check_trusted,
    graph_of,
    needed_members,
    ranked_device,
)
from relens.prediction.predictions import Prediction, Predictions, ScorePath, Vote
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
from relens.progress import SILENT, Progress
from relens.ranking.answer_ranks import AnswerRanks
from relens.runs import Run, open_run

if TYPE_CHECKING:
    import torch


class Voters(NamedTuple):
    """The grid weights of all models for one query, (N,) int64.

    Attributes:
        weights: for entities that all models were trained on.
        for_new: for new entities.
    """

    weights: npt.NDArray[np.int64]
    for_new: npt.NDArray[np.int64]

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """Which models have a weight for some entity, (N,)."""
        return (self.weights > 0) | (self.for_new > 0)


class Ensemble:
    """The models of a run, combined by its weights.

    For example::

        ensemble = relens.Ensemble.open("runs/patterns")
        found = ensemble.predict(head="site_11_20", relation="northeast_neighbour", top=3)

    Attributes:
        run: the run with models, weights and validation ranks.
        dataset: the graph, with the given facts.
        facts: facts that were given beside the graph of training, if any.
        weights: the weights of each group.
        models: the models of the run, each loaded when a question first needs it.
        groups: the group of each relation and direction in the weights, (R, 2) int32.
        confidence: the probability of answers; None if the run has no calibration of these weights and models.
        restriction: the entities that may be answers; None for all.
    """

    def __init__(
        self,
        weights: EnsembleWeights,
        models: LoadedModels,
        *,
        confidence: Confidence | None = None,
        restriction: Restriction | None = None,
    ) -> None:
        self.run, self.weights, self.models, self.facts = models.run, weights, models, models.facts
        self.confidence, self.restriction = confidence, restriction
        self._trained = models.dataset
        self.dataset = self._trained if self.facts is None else self.facts.dataset
        self._names = Names(self.dataset)
        self._thresholds: dict[int, Thresholds] = {}
        self._relation_scale: RelationScale | None = None
        self._loops = self_related(self.dataset)
        place = {label: r for r, label in enumerate(weights.relations)}
        self.groups = weights.grouping.table[[place[label] for label in self.dataset.relations.labels]]  # (R, 2)

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
                all.
            trust: load members of others, which runs their code: pickles of PyKEEN, and Python objects.
        """
        chosen = None if device == "auto" else pick_device(device)
        run = open_run(run)
        check_models(run)
        found = run.weights(weights)
        check_trusted(run, needed_members(run, found), trust=trust)
        dataset = graph_of(run, found)
        check_ranks(run, found)
        given = None if facts is None else GivenFacts.read(facts, dataset)
        whole = dataset if given is None else given.dataset
        restriction = None if candidates is None else restriction_for(whole, candidates)
        # It was calibrated on the ranks that the run has.
        confidence = None if restriction is not None else Confidence.load(run, run.choose_weights(weights), found)
        models = LoadedModels(run, dataset, chosen or ranked_device(run), given, trust=trust)
        ensemble = cls(found, models, confidence=confidence, restriction=restriction)
        if given is not None and not ensemble.propagating:
            raise InputError(f"`facts=…` adds edges that no training has seen, {ensemble._no_propagation()}")
        return ensemble

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
        found = self._predictions(query, self._rankings([query])[0], asked)
        if self.restriction is not None and not found.answers:
            raise InputError(
                f"{found.question}: {found.notes[0]}. Choose other `candidates=…`, or ask without them for all entities"
            )
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
                for query, ranking in zip(batch, self._rankings(batch), strict=True):
                    yield self._predictions(query, ranking, asked)
                advance(len(batch))

    def discover(
        self, *, parts: Path | None = None, progress: Progress = SILENT, **asked: Unpack[Request]
    ) -> Iterator[NewFact]:
        """Return an iterator over the best facts that are not in the data set, best first.

        Memory does not grow with the number of pairs. ``docs/discover.md`` defines the order and what is left out.

        Args:
            parts: a folder that keeps finished relations, so that the same call resumes; it is left for the caller to
                remove. None keeps nothing.
            progress: receives progress and notes.
            asked: what is asked for, see ``Wanted``.
        """
        return Discovery(self, Wanted(**asked)).facts(parts, progress)

    def rank_of(self, answer: str, *, relation: str, head: str | None = None, tail: str | None = None) -> float:
        """Return the rank of one answer as the evaluation counts it, other known answers removed."""
        query = self._query(head, tail, relation)
        return self._rankings([query])[0].place(self._names.entity(answer)).rank

    def score(self, triples: Facts, *, progress: Progress = SILENT) -> tuple[ScoredTriple, ...]:
        """Return the score of each triple, the ranks of its tail and its head, and its probability, in order.

        Args:
            triples: a file of tab-separated triples, or rows (head, relation, tail); labels or readable names. One
                error lists all unknown names.
            progress: shows how many answers are ranked.
        """
        return score_triples(self, triples_in_ids(triples, self._names), progress)

    def predict_relations(
        self, *, head: str, tail: str, top: int = 10, known: KnownFacts = "mark"
    ) -> RelationPredictions:
        """Return the best relations from ``head`` to ``tail``, on a scale that validation chose.

        Args:
            head, tail: the two entities; labels or readable names.
            top: how many new relations.
            known: ``mark`` adds the best known relations, at most ``top``, with their split; ``drop`` leaves them out.
        """
        (found,) = self.predict_relations_many([(head, tail)], top=top, known=known)
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
        return classify_triples(self, ids, self._thresholds_of(seed, progress), progress)

    def evaluate_classification(
        self, split: str = "test", *, name: str = "ensemble", seed: int = 0, progress: Progress = SILENT
    ) -> ClassificationEvaluation:
        """Return how well the ensemble tells the true triples of a split from false ones."""
        thresholds = self._thresholds_of(seed, progress)
        return evaluate_classification(self, name, split, thresholds, seed=seed, progress=progress)

    def _thresholds_of(self, seed: int, progress: Progress) -> Thresholds:
        """Return the thresholds for a seed, fitted when they are first needed."""
        if seed not in self._thresholds:
            self._thresholds[seed] = fit(self, seed, progress)
        return self._thresholds[seed]

    @cached_property
    def relation_ranker(self) -> RelationRanker:
        """The models, ready to rank relations."""
        return RelationRanker(self.models, self.weights, self.groups, self._trained)

    def choose_relation_scale(self, progress: Progress = SILENT) -> RelationScale:
        """Return the scale on which relations are compared, chosen on validation when it is first needed."""
        if self._relation_scale is None:
            self._relation_scale = self.relation_ranker.choose_scale(progress)
        return self._relation_scale

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

    def rank_answers(self, queries: Queries, *, progress: Progress = SILENT) -> RankedAnswers:
        """Return the ranks and scores of the answers to many queries in ids, as the evaluation ranks them."""
        if self.restriction is None and (self.facts is None or not self.facts.is_new.any()):
            ranker = AnswerRanker(self.models, self.weights, self.groups, self.dataset.known_answers)
            return ranker.rank(queries, progress=progress)
        places, scores = [], []
        with progress.task("ranking answers", len(queries)) as advance:
            for begin in range(0, len(queries), self.models.rows):
                rows = queries[begin : begin + self.models.rows].columns().T.tolist()
                rankings = self._rankings([QueryIds(*row[:3]) for row in rows])
                places += [ranking.place(row[3]) for ranking, row in zip(rankings, rows, strict=True)]
                scores += [ranking.score(row[3]) for ranking, row in zip(rankings, rows, strict=True)]
                advance(len(rows))
        return RankedAnswers(AnswerRanks(*np.array(places, dtype=np.int64).reshape(-1, 2).T), np.array(scores))

    def splits_of(self, triples: npt.NDArray[np.integer[Any]]) -> list[str | None]:
        """Return the first split that contains each triple in ids, (n, 3); ``facts`` if it was given, or None."""
        keys = self.dataset.triple_keys(triples)
        splits = dict(self._trained.splits)
        if self.facts is not None:
            splits[GIVEN] = self.facts.triples
        found = np.full(len(keys), None, dtype=object)
        for split, rows in reversed(splits.items()):
            found[np.isin(keys, self.dataset.triple_keys(rows))] = split
        return found.tolist()

    def triple_probabilities(self, queries: Queries, known: list[str | None]) -> list[float | None]:
        """Return how likely each of n triples is true; None for known ones, and where there is not enough evidence.

        It is the geometric mean of the probabilities of its tail and of its head.

        Args:
            queries: both directions of each triple, (2n,).
            known: the split of each triple that is known, n of them.
        """
        new = np.repeat([split is None for split in known], 2)
        found = np.full(len(queries), np.nan)
        rows = np.flatnonzero(new) if self.confidence is not None else np.empty(0, dtype=np.int64)
        for begin in range(0, len(rows), self.models.rows):
            part = rows[begin : begin + self.models.rows]
            asked = [QueryIds(*row) for row in queries[part].columns()[:3].T.tolist()]
            for at, query, ranking in zip(part, asked, self._rankings(asked), strict=True):
                found[at] = self.probabilities(query, ranking, queries.answer[[at]].astype(np.int64))[0]
        both = np.sqrt(found[0::2] * found[1::2]).tolist()
        return [None if np.isnan(probability) else probability for probability in both]

    def probabilities(
        self, query: QueryIds, ranking: CandidateRanking, entities: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return the probability that each of k entities is a missing fact, (k,) float64; see ``Confidence``.

        NaN says that there is not enough evidence, that the entity is a known answer, or that given facts have new
        entities, on which models abstain.

        Args:
            query: the query.
            ranking: its candidates.
            entities: ids, (k,).
        """
        found = np.full(len(entities), np.nan)
        if self.confidence is None or (self.facts is not None and self.facts.is_new.any()):
            return found
        asked = self._candidates(query, ranking)
        new = ~ranking.known[entities]
        found[new] = self.confidence.probability(self._group(query), asked, entities[new])
        return found

    def explain(
        self, answer: str, *, relation: str, head: str | None = None, tail: str | None = None
    ) -> tuple[ScorePath, ...]:
        """Return the paths that carried the score of one answer, for each propagating model with a weight.

        There are at most three per model, most important first, and none if no such path is short enough.
        """
        self._check(Asked(explain=True))
        return self._paths(self._query(head, tail, relation), self._names.entity(answer))

    @cached_property
    def propagating(self) -> tuple[str, ...]:
        """The names of the models with a weight in some group that score by paths through the graph."""
        used = self.weights.table.max(axis=0) > 0
        models = [model for model, weighed in zip(self.weights.models, used, strict=True) if weighed]
        return tuple(model for model in models if self.models.propagate(model))

    def resolve(self, anchor: str, relation: str, direction: str) -> QueryIds:
        """Return a query in ids; an unknown or ambiguous name raises an error."""
        if direction not in DIRECTIONS:
            raise InputError(f"unknown direction {direction!r}: expected the missing side, tail or head")
        return QueryIds(self._names.entity(anchor), self._names.relation(relation), DIRECTIONS.index(direction))

    def _query(self, head: str | None, tail: str | None, relation: str) -> QueryIds:
        direction = the_direction(head, tail)
        return self.resolve(str(head if tail is None else tail), relation, DIRECTIONS[direction])

    def _group(self, query: QueryIds) -> int:
        return int(self.groups[query.relation, query.direction])

    def _rankings(self, batch: list[QueryIds]) -> list[CandidateRanking]:
        """Score up to ``models.rows`` queries, each with the models that have a weight for it."""
        voters = [self._voters(query) for query in batch]
        columns = np.array([(query.anchor, query.relation, query.direction, 0, 0) for query in batch]).T
        queries = Queries.from_columns(columns)  # answer and triple are unknown: 0
        rows: list[list[npt.NDArray[Any]]] = [[] for _ in batch]
        for model, of_model in zip(self.weights.models, np.array([of.used for of in voters]).T, strict=True):
            asking = np.flatnonzero(of_model)
            if len(asking):
                scores = self.models.scores(model, queries[asking])
                for position, row in zip(asking, scores, strict=True):
                    rows[position].append(row)
        return [self._ranking(query, of, np.stack(row)) for query, of, row in zip(batch, voters, rows, strict=True)]

    def _voters(self, query: QueryIds) -> Voters:
        """Return the weights of all models for a query; those without a vector for a new entity abstain on it."""
        weights = self.weights.table[self._group(query)]
        if self.facts is None or not self.facts.is_new.any():
            return Voters(weights, weights)
        reading = np.isin(self.weights.models, self.propagating)
        for_new = weights * reading if (weights * reading).any() else reading.astype(np.int64)
        return Voters(for_new if self.facts.is_new[query.anchor] else weights, for_new)

    def _ranking(self, query: QueryIds, voters: Voters, scores: npt.NDArray[Any]) -> CandidateRanking:
        used = voters.used
        scales = None if self.weights.gap_scales is None else self.weights.gap_scales[used]
        known = np.fromiter(self._known(query), dtype=np.int64)
        newcomers = None
        if self.facts is not None and not np.array_equal(*voters):
            newcomers = Newcomers(self.facts.is_new, voters.for_new[used])
        allowed = None if self.restriction is None else self.restriction.mask(query.relation, query.direction)
        return CandidateRanking(
            scores, known, voters.weights[used], INPUTS[self.weights.input], scales, newcomers, allowed
        )

    def _known(self, query: QueryIds) -> dict[int, str]:
        asked = query.anchor, query.relation, query.direction
        given = {} if self.facts is None else dict.fromkeys(self.facts.stated.answers_to(*asked), GIVEN)
        return given | self._trained.stated_answers.answers_to(*asked)

    def _candidates(self, query: QueryIds, ranking: CandidateRanking) -> Candidates:
        """Return the candidates of a query as probabilities take them: compared with its answers in train, if any."""
        hidden = None if self._loops[query.relation] else query.anchor
        return Candidates.of(ranking, hidden, self.compared(query))

    def compared(self, query: QueryIds) -> npt.NDArray[np.int64]:
        """Return the known answers that probabilities compare the candidates of a query with, (m,)."""
        return compared_with(self._known(query), (*SPLITS, GIVEN))

    def _abstaining(self, query: QueryIds, entity: int) -> tuple[str, ...]:
        """Return the models that do not vote, though they have a weight, because an entity is new to them."""
        if self.facts is None or not self.facts.is_new[[query.anchor, entity]].any():
            return ()
        voters = self._voters(query)
        silent = (self.weights.table[self._group(query)] > 0) & (voters.for_new == 0)
        return tuple(np.array(self.weights.models)[silent].tolist())

    def _check(self, asked: Asked) -> None:
        """Raise an error if a request makes no sense, or no model can fulfil it."""
        if asked.top < 1:
            raise InputError(f"`top={asked.top}` asks for no answers: expected at least 1")
        if asked.known not in KNOWN:
            raise InputError(f"unknown value `known={asked.known}`; {nearest(asked.known, KNOWN)}")
        if asked.explain and not self.propagating:
            raise InputError(f"`explain=True` shows the paths that a score travelled along, {self._no_propagation()}")

    def _no_propagation(self) -> str:
        """Say that no model propagates, and what to do."""
        from relens.models import MODELS

        names = [name for name, entry in MODELS.items() if entry.propagates]
        run = self.run.path
        return (
            f"but no model of {run} with a weight ({', '.join(self.weights.models)}) sends anything along the edges. "
            f"Train one that does ({', '.join(names)}), then rank and search again: `relens train {self.dataset.name} "
            f"--model {names[0]} --run {run}; relens rank {run} --force; relens search {run}`"
        )

    def _paths(self, query: QueryIds, answer: int) -> tuple[ScorePath, ...]:
        """Return the paths that carried an answer's score, model by model."""
        labels, names, relations = self.dataset.entities.labels, self.dataset.names, self.dataset.relations.labels
        relation_names = self.dataset.relation_names
        found = []
        for model in self._explaining(query):
            for path in self.models.paths(model, query, answer):
                entities = tuple(labels[entity] for entity in path.entities)
                steps = tuple(relations[relation % len(relations)] for relation in path.relations)
                found.append(
                    ScorePath(
                        model=model,
                        importance=path.importance,
                        entities=entities,
                        relations=steps,
                        inverse=tuple(relation >= len(relations) for relation in path.relations),
                        names=tuple(names.get(label) for label in entities),
                        relation_names=tuple(relation_names.get(label) for label in steps),
                    )
                )
        return tuple(found)

    def _explaining(self, query: QueryIds) -> list[str]:
        """Return the propagating models with a weight for a query, highest weight first."""
        weights = dict(zip(self.weights.models, np.maximum(*self._voters(query)).tolist(), strict=True))
        return sorted((model for model in self.propagating if weights[model]), key=lambda model: -weights[model])

    def _notes(self, query: QueryIds, answers: Sequence[Prediction], asked: Asked) -> tuple[str, ...]:
        """Return remarks on the answers to a query: who abstains and why, and why there are no paths."""
        notes = []
        if self.restriction is not None and not answers:
            allowed = len(self.restriction.allowed(query.relation, query.direction))
            held = f"none of {allowed:,} is a new answer" if allowed else "nobody is among them"
            notes.append(f"the candidates ({self.restriction.name}) leave nobody: {held}")
        silent = next((answer for answer in answers if answer.abstained), None)
        if silent is not None and self.facts is not None:
            anchor = self.dataset.entities.labels[query.anchor]
            new = self.facts.is_new[query.anchor]
            whom = f": {anchor} is" if new else f" on new answers such as {silent.entity}, which are"
            notes.append(
                f"no vote by {', '.join(silent.abstained)}{whom} not in the graph of training; the weight goes to "
                f"{', '.join(vote.model for vote in silent.votes)}"
            )
        if asked.explain and not self._explaining(query):
            notes.append(f"no paths: {', '.join(self.propagating)} has no weight for this relation and direction")
        return tuple(notes)

    def _predictions(self, query: QueryIds, ranking: CandidateRanking, asked: Asked) -> Predictions:
        labels, names = self.dataset.entities.labels, self.dataset.names
        split_of = self._known(query)
        answers = []
        hidden = None if self._loops[query.relation] or ranking.known[query.anchor] else query.anchor
        best = ranking.best(asked.top, with_known=asked.known == "mark", without=hidden)
        probabilities = self.probabilities(query, ranking, np.array([entity for entity, _ in best])).tolist()
        for (entity, rank), probability in zip(best, probabilities, strict=True):
            split = split_of.get(entity)
            abstained = self._abstaining(query, entity)
            answers.append(
                Prediction(
                    entity=labels[entity],
                    name=names.get(labels[entity]),
                    rank=rank.rank,
                    place=None if split else ranking.place_without(hidden, entity, rank).rank,
                    score=ranking.score(entity),
                    known=split,
                    confidence=None if abstained or np.isnan(probability) else probability,
                    votes=self._votes(self._voters(query), entity, ranking.model_ranks(entity)),
                    abstained=abstained,
                    paths=self._paths(query, entity) if asked.explain else None,
                )
            )
        relation = self.dataset.relations.labels[query.relation]
        return Predictions(
            anchor=labels[query.anchor],
            relation=relation,
            relation_name=self.dataset.relation_names.get(relation),
            direction=DIRECTIONS[query.direction],
            candidates=ranking.n_candidates,
            answers=tuple(answers),
            anchor_rank=None if hidden is None else ranking.place(hidden).rank,
            notes=self._notes(query, answers, asked),
            restriction=None if self.restriction is None else self.restriction.name,
        )

    def _votes(self, voters: Voters, entity: int, ranks: list[float | None]) -> tuple[Vote, ...]:
        new = self.facts is not None and self.facts.is_new[entity]
        weights = voters.for_new if new else voters.weights
        shares = (weights / weights.sum()).tolist()
        rows = zip(np.flatnonzero(voters.used).tolist(), ranks, strict=True)
        votes = [Vote(self.weights.models[i], rank, shares[i]) for i, rank in rows if shares[i] and rank is not None]
        return tuple(sorted(votes, key=lambda vote: -vote.weight))
