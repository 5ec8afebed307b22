"""Answers to questions for entities: the best candidates, with votes, confidence, notes, and explaining paths."""

from collections.abc import Sequence

import numpy as np

from relens.data.queries import DIRECTIONS
from relens.prediction.candidate_ranking import CandidateRanking
from relens.prediction.predictions import Prediction, Predictions, ScorePath
from relens.prediction.questions import Asked, QueryIds
from relens.prediction.voting import Voting


def best_answers(voting: Voting, query: QueryIds, ranking: CandidateRanking, asked: Asked) -> Predictions:
    """Return the best answers to a query whose candidates are ranked."""
    labels, names = voting.dataset.entities.labels, voting.dataset.names
    split_of = voting.known(query)
    answers = []
    hidden = None if voting.loops[query.relation] or ranking.known[query.anchor] else query.anchor
    best = ranking.best(asked.top, with_known=asked.known == "mark", without=hidden)
    probabilities = voting.probabilities(query, ranking, np.array([entity for entity, _ in best])).tolist()
    for (entity, rank), probability in zip(best, probabilities, strict=True):
        split = split_of.get(entity)
        abstained = voting.abstaining(query, entity)
        answers.append(
            Prediction(
                entity=labels[entity],
                name=names.get(labels[entity]),
                rank=rank.rank,
                place=None if split else ranking.place_without(hidden, entity, rank).rank,
                score=ranking.score(entity),
                known=split,
                confidence=None if abstained or np.isnan(probability) else probability,
                votes=voting.votes(query, entity, ranking.model_ranks(entity)),
                abstained=abstained,
                paths=paths_to(voting, query, entity) if asked.explain else None,
            )
        )
    relation = voting.dataset.relations.labels[query.relation]
    return Predictions(
        anchor=labels[query.anchor],
        relation=relation,
        relation_name=voting.dataset.relation_names.get(relation),
        direction=DIRECTIONS[query.direction],
        candidates=ranking.n_candidates,
        answers=tuple(answers),
        anchor_rank=None if hidden is None else ranking.place(hidden).rank,
        notes=_notes(voting, query, answers, asked),
        restriction=None if voting.restriction is None else voting.restriction.name,
    )


def paths_to(voting: Voting, query: QueryIds, answer: int) -> tuple[ScorePath, ...]:
    """Return the paths that carried an answer's score, model by model."""
    labels, relations = voting.dataset.entities.labels, voting.dataset.relations.labels
    names, relation_names = voting.dataset.names, voting.dataset.relation_names
    found = []
    for model in _explaining(voting, query):
        for path in voting.models.paths(model, query, answer):
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


def _explaining(voting: Voting, query: QueryIds) -> list[str]:
    """Return the propagating models with a weight for a query, highest weight first."""
    weights = dict(zip(voting.weights.models, np.maximum(*voting.voters(query)).tolist(), strict=True))
    return sorted((model for model in voting.propagating if weights[model]), key=lambda model: -weights[model])


def _notes(voting: Voting, query: QueryIds, answers: Sequence[Prediction], asked: Asked) -> tuple[str, ...]:
    """Return remarks on the answers to a query: who abstains and why, and why there are no paths."""
    notes = []
    if voting.restriction is not None and not answers:
        allowed = len(voting.restriction.allowed(query.relation, query.direction))
        held = f"none of {allowed:,} is a new answer" if allowed else "nobody is among them"
        notes.append(f"the candidates ({voting.restriction.name}) leave nobody: {held}")
    silent = next((answer for answer in answers if answer.abstained), None)
    if silent is not None and voting.facts is not None:
        anchor = voting.dataset.entities.labels[query.anchor]
        new = voting.facts.is_new[query.anchor]
        whom = f": {anchor} is" if new else f" on new answers such as {silent.entity}, which are"
        notes.append(
            f"no vote by {', '.join(silent.abstained)}{whom} not in the graph of training; the weight goes to "
            f"{', '.join(vote.model for vote in silent.votes)}"
        )
    if asked.explain and not _explaining(voting, query):
        notes.append(f"no paths: {', '.join(voting.propagating)} has no weight for this relation and direction")
    return tuple(notes)
