"""Answers as tables for people, and as records for programs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from relens.errors import counted
from relens.prediction import Ensemble, Predictions, RelationPredictions, Vote
from relens.tables import Column, Row, Table
from relens.tables.streams import Field

ANSWER_FIELDS = (
    Field("anchor"), Field("relation"), Field("relation_name"), Field("direction"), Field("answer"), Field("name"),
    Field("rank", float, "g"),
    Field("place", float, "g"), Field("score", float, ".6g"), Field("confidence", float, ".4f"), Field("known"),
    Field("votes"),
)  # fmt: skip
PATHS_FIELD = Field("paths")
RELATION_FIELDS = (
    Field("head"), Field("tail"), Field("relation"), Field("relation_name"), Field("rank", float, "g"),
    Field("score", float, ".6g"), Field("known"), Field("votes"),
)  # fmt: skip


def answer_fields(ensemble: Ensemble, *, explain: bool) -> tuple[Field, ...]:
    """Return the columns of answers of an ensemble: with paths if they are explained, and their restriction if any."""
    return (*ANSWER_FIELDS, *([PATHS_FIELD] if explain else []), *restriction_field(ensemble))


def relation_fields(ensemble: Ensemble) -> tuple[Field, ...]:
    """Return the columns of relations that an ensemble finds."""
    return (*RELATION_FIELDS, *restriction_field(ensemble))


def restriction_field(ensemble: Ensemble) -> Sequence[Field]:
    """Return the column that names the restriction of the candidates, if there is one."""
    return () if ensemble.restriction is None else (Field("restriction"),)


def prediction_table(found: Predictions, ensemble: Ensemble) -> Table:
    """Return a table of the answers to one query, with each model's rank and weight."""
    voters: dict[str, float] = {}
    for answer in sorted(found, key=lambda answer: len(answer.abstained)):
        for vote in answer.votes:
            voters.setdefault(vote.model, vote.weight)
    named = any(answer.name for answer in found)
    columns = (
        Column("rank", "g"),
        Column("place", "g"),
        Column("answer", align="left"),
        *([Column("name", align="left")] if named else []),
        Column("known", align="left"),
        Column("confidence", ".1%"),
        Column("score", ".4g"),
        *(Column(f"{model} ×{weight:.2f}", ",g") for model, weight in voters.items()),
    )
    rows = tuple(
        Row(
            (
                answer.rank,
                answer.place,
                answer.entity,
                *([answer.name] if named else []),
                answer.known,
                answer.confidence,
                answer.score,
                *(({vote.model: vote.rank for vote in answer.votes}).get(model) for model in voters),
            )
        )
        for answer in found
    )
    weights = ensemble.weights
    facts = {
        **({"relation": found.relation_name} if found.relation_name else {}),
        "data set": ensemble.dataset.name,
        "weights": f"{weights.settings.get('method', 'ensemble')} on {weights.input}",
        "candidates": f"{found.candidates:,}{f' ({found.restriction})' if found.restriction else ''}, known facts "
        "not counted",
    }
    n_known = 0 if found.restriction else len(ensemble.dataset.entities) - found.candidates
    n_shown = sum(answer.known is not None for answer in found)
    last_new = max((answer.rank for answer in found if answer.known is None), default=0)
    hidden = found.anchor_rank is not None and found.anchor_rank <= last_new
    notes = (
        *([f"{n_known:,} known facts, the best {n_shown:,} shown"] if 0 < n_shown < n_known else []),
        *([_hidden_anchor(found)] if hidden else []),
        *found.notes,
        "under a model: its own rank of the answer; × its weight in this group",
        _of_confidence(found, ensemble),
    )
    return Table(found.question, columns, rows, facts, notes)


def _of_confidence(found: Predictions, ensemble: Ensemble) -> str:
    """Say what the confidence means, or why there is none."""
    if ensemble.restriction is not None:
        return "no confidence: it is calibrated among all entities, not among these candidates"
    if ensemble.confidence is None:
        command = f"relens calibrate {ensemble.run.path} --weights {ensemble.name}"
        return f"no confidence: `{command}` calibrates it for these weights and models"
    new = [answer for answer in found if answer.known is None]
    if new and all(answer.confidence is None for answer in new):
        return "no confidence: there is not enough evidence on questions like this one"
    return "confidence: the probability that the answer is a fact, if as many are missing as validation has"


def paths_table(found: Predictions) -> Table:
    """Return a table of the paths that carried the score of each answer."""
    columns = (
        Column("answer", align="left"),
        Column("model", align="left"),
        Column("importance", ".3g"),
        Column("path", align="left"),
    )
    rows = tuple(
        Row((answer.name or answer.entity, path.model, path.importance, str(path)))
        for answer in found
        for path in answer.paths or ()
    )
    without = [answer.name or answer.entity for answer in found if not answer.paths]
    notes = (
        *([f"no path that is short enough: {', '.join(without)}"] if without and rows else []),
        "importance: the mean gradient of the model's score by the messages along the path",
        "→ follows a fact from its head to its tail, ← from its tail to its head",
    )
    return Table("The paths that carried the scores", columns, rows, {}, notes)


def _hidden_anchor(found: Predictions) -> str:
    """Explain the gap that the anchor leaves in the ranks."""
    return (
        f"{found.anchor} itself holds rank {found.anchor_rank:g} and is not shown: {found.relation} links no entity to "
        f"itself in the data"
    )


def relation_table(found: RelationPredictions, ensemble: Ensemble) -> Table:
    """Return a table of the relations between two entities, with each model's rank."""
    models = dict.fromkeys(vote.model for answer in found for vote in answer.votes)
    named = any(answer.name for answer in found)
    columns = (
        Column("rank", "g"),
        Column("relation", align="left"),
        *([Column("name", align="left")] if named else []),
        Column("known", align="left"),
        Column("score", ".4g"),
        *(Column(model, ",g") for model in models),
    )
    rows = []
    for answer in found:
        ranks = {vote.model: vote.rank for vote in answer.votes}
        name = [answer.name] if named else []
        rows.append(Row((answer.rank, answer.relation, *name, answer.known, answer.score, *map(ranks.get, models))))
    among = f" ({found.restriction})" if found.restriction else ""
    facts = {
        "data set": ensemble.dataset.name,
        "candidates": f"{counted(found.candidates, 'relation')}{among}, known ones not counted",
        "scale": found.scale,
    }
    notes = (
        *found.notes,
        "under a model: its own rank of the relation",
        "the scale makes relations comparable: validation chose it",
    )
    return Table(found.question, columns, tuple(rows), facts, notes)


def records_of(found: Predictions | RelationPredictions) -> Iterator[dict[str, Any]]:
    """Yield a record per answer."""
    return _rows(found) if isinstance(found, Predictions) else _pairs(found)


def _pairs(found: RelationPredictions) -> Iterator[dict[str, Any]]:
    """Yield a record per relation."""
    for answer in found:
        yield {
            "head": found.head,
            "tail": found.tail,
            **answer.to_json(),
            "relation_name": answer.name,
            "votes": _votes(answer.votes),
            "restriction": found.restriction,
        }


def _votes(votes: Iterable[Vote]) -> str:
    """Return votes as ``model:rank:weight``."""
    return " ".join(f"{vote.model}:{vote.rank:g}:{vote.weight:.4f}" for vote in votes)


def _rows(found: Predictions) -> Iterator[dict[str, Any]]:
    """Yield a record per answer; votes are ``model:rank:weight``, paths ``model:importance path``."""
    for answer in found:
        yield {
            "anchor": found.anchor,
            "relation": found.relation,
            "relation_name": found.relation_name,
            "direction": found.direction,
            "answer": answer.entity,
            "name": answer.name,
            "rank": answer.rank,
            "place": answer.place,
            "score": answer.score,
            "confidence": answer.confidence,
            "known": answer.known,
            "votes": _votes(answer.votes),
            "paths": "; ".join(f"{path.model}:{path.importance:.4g} {path}" for path in answer.paths or ()),
            "restriction": found.restriction,
        }
