"""Relations between two entities: the best ones by an ensemble, and how well it finds them."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from relens.data.queries import HEAD, SPLITS, TAIL
from relens.data.restriction import Restriction
from relens.errors import RanksError
from relens.evaluation import Measured, Metrics
from relens.prediction.predictions import Vote
from relens.prediction.questions import Asked
from relens.prediction.relation_scale import Floats, known_relations, relation_ranks
from relens.progress import SILENT, Progress
from relens.ranking.answer_ranks import AnswerRanks, doubled_ranks
from relens.records import RELATIONS, TIE_RULE, Provenance
from relens.significance import Interval, bootstrap_interval

if TYPE_CHECKING:
    from relens.prediction.ensemble import Ensemble

BATCH = 256
"""Pairs whose relations are scored together."""


@dataclass(frozen=True)
class RelationPrediction:
    """One relation between two entities.

    Attributes:
        relation: its label.
        rank: its rank among all relations, other known relations of the pair removed; a tied block shares its mean.
        score: on the scale that makes relations comparable; higher is better.
        known: the first split that contains the fact, ``facts`` if it was given; None for a new one.
        votes: each model's own rank of the relation, and its weight for it, highest weight first.
        name: its readable name; None if the data set has none.
    """

    relation: str
    rank: float
    score: float
    known: str | None
    votes: tuple[Vote, ...]
    name: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "votes": [asdict(vote) for vote in self.votes]}


@dataclass(frozen=True)
class RelationPredictions(Sequence[RelationPrediction]):
    """The best relations between two entities, best first.

    Attributes:
        head, tail: labels of the entities.
        candidates: how many relations were ranked, without known ones.
        scale: how the scores of relations were made comparable.
        answers: the predictions; known relations come in addition to the requested number of new ones.
        restriction: the name of the restriction of head and tail; None if all relations are ranked.
        notes: remarks for the reader.
    """

    head: str
    tail: str
    candidates: int
    scale: str
    answers: tuple[RelationPrediction, ...]
    restriction: str | None = None
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> RelationPrediction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RelationPrediction, ...]: ...
    def __getitem__(self, index: int | slice) -> RelationPrediction | tuple[RelationPrediction, ...]:
        return self.answers[index]

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[RelationPrediction]:
        return iter(self.answers)

    @property
    def question(self) -> str:
        """The question as a triple, such as ``(paris, ?, france)``."""
        return f"({self.head}, ?, {self.tail})"

    def to_records(self) -> list[dict[str, Any]]:
        """Return a dictionary of plain JSON values per answer."""
        return [answer.to_json() for answer in self.answers]

    def to_json(self) -> dict[str, Any]:
        """Return the question and its answers as plain JSON values."""
        return {
            "head": self.head,
            "tail": self.tail,
            "candidates": self.candidates,
            "scale": self.scale,
            "restriction": self.restriction,
            "answers": self.to_records(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, kw_only=True)
class RelationEvaluation(Measured[Metrics]):
    """How well an ensemble finds the relation of the triples of a split, other known relations removed.

    Attributes:
        scale: the scale that relations were compared on.
        valid_mrr: MRR on validation of everything that was tried as a scale, by its description.
        valid_triples: validation triples that the scale was chosen on.
        interval: bootstrap interval of the MRR.
    """

    scale: str
    valid_mrr: dict[str, float]
    valid_triples: int
    interval: Interval

    def to_json(self) -> dict[str, Any]:
        """Return a record of plain JSON values."""
        return RELATIONS.stamp(
            {
                "name": self.name,
                "provenance": self.provenance.to_json(),
                "tie_rule": TIE_RULE,
                "scale": self.scale,
                "valid_mrr": self.valid_mrr,
                "valid_triples": self.valid_triples,
                "overall": self.overall.to_json(),
                "by_relation": {label: metrics.to_json() for label, metrics in self.by_relation.items()},
                "interval": list(self.interval),
                "seed": self.seed,
            }
        )


def allowed_relations(
    restriction: Restriction | None, pairs: npt.NDArray[np.integer[Any]], n_relations: int
) -> npt.NDArray[np.bool_]:
    """Return which relations q pairs of head and tail (q, 2) may have, (q, R): both may be on their sides of them."""
    allowed = np.ones((len(pairs), n_relations), dtype=bool)
    if restriction is not None:
        for relation in range(n_relations):
            for column, side in enumerate((HEAD, TAIL)):
                allowed[:, relation] &= np.isin(pairs[:, column], restriction.allowed(relation, side))
    return allowed


def predict_relations(
    ensemble: "Ensemble", pairs: npt.NDArray[np.int64], asked: Asked, progress: Progress
) -> Iterator[RelationPredictions]:
    """Yield the best relations between each of q pairs of entities, (q, 2), in order."""
    scale = ensemble.choose_relation_scale(progress)
    for begin in range(0, len(pairs), BATCH):
        batch = pairs[begin : begin + BATCH]
        scores, of_models = ensemble.relation_ranker.rank(batch, scale, progress)
        allowed = allowed_relations(ensemble.restriction, batch, scores.shape[1])
        for number, pair in enumerate(batch.tolist()):
            ranked = _Ranked(scores[number], of_models[:, number], allowed[number])
            yield _best_relations(ensemble, pair, ranked, asked, scale.describe())


class _Ranked(NamedTuple):
    """The scores of R relations between two entities.

    Attributes:
        scores: by the ensemble, (R,).
        of_models: by each model, (n, R).
        allowed: which relations may be answers, (R,).
    """

    scores: Floats
    of_models: Floats
    allowed: npt.NDArray[np.bool_]


def _best_relations(
    ensemble: "Ensemble", pair: Sequence[int], ranked: _Ranked, asked: Asked, scale: str
) -> RelationPredictions:
    """Return the best relations between two entities, whose relations are scored."""
    ranker, restriction = ensemble.relation_ranker, ensemble.restriction
    labels, relations = ensemble.dataset.entities.labels, ensemble.dataset.relations.labels
    scores, (head, tail), every = ranked.scores, pair, np.arange(len(relations))
    split_of = ensemble.voting.splits_of(np.column_stack([np.full_like(every, head), every, np.full_like(every, tail)]))
    competing = np.array([split is None for split in split_of]) & ranked.allowed
    doubled = doubled_ranks(scores, competing)
    order = sorted(every.tolist(), key=lambda relation: (doubled[relation], -scores[relation], relation))
    new = [relation for relation in order if competing[relation]][: asked.top]
    known = [relation for relation in order if split_of[relation] is not None and ranked.allowed[relation]]
    shown = set(new) | set(known[: asked.top] if asked.known == "mark" else [])
    own = [doubled_ranks(row, competing) / 2 for row in ranked.of_models]
    notes = []
    if restriction is not None and not shown:
        n_allowed = int(ranked.allowed.sum())
        held = f"none of {n_allowed:,} is a new answer" if n_allowed else "the two entities share no relation"
        notes.append(f"the candidates ({restriction.name}) leave no relation: {held}")
    return RelationPredictions(
        head=labels[head],
        tail=labels[tail],
        candidates=int(competing.sum()),
        scale=scale,
        answers=tuple(
            RelationPrediction(
                relation=relations[relation],
                rank=float(doubled[relation]) / 2,
                score=float(scores[relation]),
                known=split_of[relation],
                votes=_votes(ranker.names, [ranks[relation] for ranks in own], ranker.shares[:, relation]),
                name=ensemble.dataset.relation_names.get(relations[relation]),
            )
            for relation in order
            if relation in shown
        ),
        restriction=None if restriction is None else restriction.name,
        notes=tuple(notes),
    )


def _votes(models: Sequence[str], ranks: Sequence[float], shares: npt.NDArray[np.float64]) -> tuple[Vote, ...]:
    """Return the votes of the models with a weight; ``shares`` by direction, (n, 2)."""
    rows = zip(models, map(float, ranks), shares.sum(axis=1).tolist(), strict=True)
    return tuple(sorted((Vote(*row) for row in rows if row[2]), key=lambda vote: -vote.weight))


def evaluate_relations(
    ensemble: "Ensemble", name: str, split: str, *, seed: int, progress: Progress
) -> RelationEvaluation:
    """Rank the relation of every triple of a split among all relations, other known ones of all splits removed."""
    dataset, scale, restriction = ensemble.dataset, ensemble.choose_relation_scale(progress), ensemble.restriction
    triples = dataset.splits[split]
    if not len(triples):
        raise RanksError(f"there is nothing to evaluate: {split} of {dataset.name} has no triples")
    parts, outside = [], 0
    with progress.task("ranking relations", len(triples)) as advance:
        for begin in range(0, len(triples), BATCH):
            part = triples[begin : begin + BATCH]
            scores, _ = ensemble.relation_ranker.rank(part[:, [0, 2]], scale, SILENT)
            allowed = allowed_relations(restriction, part[:, [0, 2]], len(dataset.relations))
            known = known_relations(part, list(dataset.splits.values()), len(dataset.relations))
            parts.append(relation_ranks(scores, part[:, 1], known | ~allowed))
            outside += int(np.sum(~allowed[np.arange(len(part)), part[:, 1]]))
            advance(len(part))
    ranks = AnswerRanks(np.concatenate([r.ahead for r in parts]), np.concatenate([r.tied for r in parts]))
    relations, among = dataset.relations.labels, "all" if restriction is None else restriction.name
    return RelationEvaluation(
        name=name,
        provenance=Provenance(
            dataset.name, dataset.fingerprint, split, SPLITS, among, None if restriction is None else outside
        ),
        scale=scale.describe(),
        valid_mrr={f"{name}, prior {prior:g}": mrr for (name, prior), mrr in scale.tried.items()},
        valid_triples=scale.triples,
        overall=Metrics.measure(ranks),
        by_relation={relations[r]: Metrics.measure(ranks, triples[:, 1] == r) for r in np.unique(triples[:, 1])},
        interval=bootstrap_interval(1 / ranks.realistic, np.arange(len(ranks)), seed=seed),
        seed=seed,
    )
