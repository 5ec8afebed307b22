"""The verbs that ask a run's ensemble: ``predict``, ``score``, ``classify`` and ``discover``.

Each opens the run and asks once; ``Ensemble.open(run)`` keeps the models in memory, for several questions. ``relens``
exports all of them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from relens.errors import InputError
from relens.prediction import (
    ClassifiedTriple,
    Ensemble,
    Facts,
    KnownFacts,
    NewFact,
    Predictions,
    RelationPredictions,
    ScoredTriple,
)
from relens.prediction.candidates import CandidatesOption
from relens.prediction.discovery import DEPTH, LIKELY
from relens.progress import SILENT, Progress
from relens.runs import Run


@overload
def predict(
    run: Run | Path | str,
    *,
    relation: str,
    head: str | None = None,
    tail: str | None = None,
    top: int = 10,
    known: KnownFacts = "mark",
    explain: bool = False,
    facts: Facts | None = None,
    candidates: CandidatesOption | None = None,
    weights: str | None = None,
    device: str = "auto",
    trust: bool = False,
) -> Predictions: ...
@overload
def predict(
    run: Run | Path | str,
    *,
    head: str,
    tail: str,
    top: int = 10,
    known: KnownFacts = "mark",
    facts: Facts | None = None,
    weights: str | None = None,
    device: str = "auto",
    trust: bool = False,
) -> RelationPredictions: ...
def predict(
    run: Run | Path | str,
    *,
    relation: str | None = None,
    head: str | None = None,
    tail: str | None = None,
    top: int = 10,
    known: KnownFacts = "mark",
    explain: bool = False,
    facts: Facts | None = None,
    candidates: CandidatesOption | None = None,
    weights: str | None = None,
    device: str = "auto",
    trust: bool = False,
) -> Predictions | RelationPredictions:
    """Return the best answers to one question: tails if ``head`` is given, heads if ``tail`` is, relations for both.

    ``Ensemble.open(run)`` keeps the models in memory, for several questions.

    Args:
        run: a run with trained models and weights.
        relation: the label or readable name of the relation; None to ask for it.
        head, tail: the given entity, one of the two; its label or readable name. Both, if the relation is asked for.
        top: how many new answers.
        known: ``mark`` adds the best known facts, at most ``top``, with their split; ``drop`` leaves them out.
        explain: add the paths that carried the score of each answer; the run needs a model that propagates.
        facts: more facts, also of new entities, for models that propagate: a file of tab-separated triples, or rows
            (head, relation, tail).
        candidates: the entities that may be answers: ``observed`` (those that train has on that side of the relation),
            ``types`` (those that share a type with one of them), a file or a list of entities. None for all.
        weights: the name of the weights in the run; None for ``dsc``, or the only ones there are.
        device: where models run; ``auto`` for the device that the run was ranked on, if it is here.
        trust: load members of others, which runs their code: pickles of PyKEEN, and Python objects.

    Returns:
        A sequence of predictions, best first, each with rank, confidence and the votes of the models.

    For example::

        found = relens.predict("runs/patterns", head="site_11_20", relation="northeast_neighbour", top=3)
        print(found[0].entity, found[0].rank)
    """
    ensemble = Ensemble.open(run, weights, device, facts=facts, candidates=candidates, trust=trust)
    if relation is None:
        if head is None or tail is None:
            raise InputError("give `relation=…` and one of `head=…` and `tail=…`, or both of these without a relation")
        if explain:
            raise InputError("`explain=True` shows paths to entities: it does not go with a question for relations")
        return ensemble.predict_relations(head=head, tail=tail, top=top, known=known)
    return ensemble.predict(head=head, tail=tail, relation=relation, top=top, known=known, explain=explain)


def score(
    run: Run | Path | str,
    triples: Facts,
    *,
    facts: Facts | None = None,
    weights: str | None = None,
    device: str = "auto",
    trust: bool = False,
    progress: Progress = SILENT,
) -> tuple[ScoredTriple, ...]:
    """Return the score of each triple, the ranks of its tail and its head, and its probability, in order.

    The ranks are those of the evaluation, also for known triples: other known answers are removed.

    Args:
        run: a run with trained models and weights.
        triples: a file of tab-separated triples, or rows (head, relation, tail); labels or readable names.
        facts: more facts, also of new entities, see ``predict``.
        weights: the name of the weights in the run; None for ``dsc``, or the only ones there are.
        device: where models run; ``auto`` for the device that the run was ranked on, if it is here.
        trust: load members of other origin, whose code runs, see ``predict``.
        progress: shows how many answers are ranked.

    For example::

        (found,) = relens.score("runs/patterns", [("site_11_20", "northeast_neighbour", "site_12_21")])
        print(found.score, found.tail_rank, found.head_rank)
    """
    return Ensemble.open(run, weights, device, facts=facts, trust=trust).score(triples, progress=progress)


def classify(
    run: Run | Path | str,
    triples: Facts,
    *,
    facts: Facts | None = None,
    weights: str | None = None,
    device: str = "auto",
    trust: bool = False,
    seed: int = 0,
    progress: Progress = SILENT,
) -> tuple[ClassifiedTriple, ...]:
    """Return a verdict on each triple, in order: true or false by thresholds that are fitted on validation.

    Each relation has the threshold with the best accuracy on its validation triples and on false ones: those of
    ``valid_negatives.txt`` if the data set has that file, and sampled ones otherwise. ``Ensemble.open(run)`` keeps the
    thresholds in memory, for several calls.

    Args:
        run: a run with trained models and weights.
        triples: a file of tab-separated triples, or rows (head, relation, tail); labels or readable names.
        facts: more facts, also of new entities, see ``predict``.
        weights: the name of the weights in the run; None for ``dsc``, or the only ones there are.
        device: where models run; ``auto`` for the device that the run was ranked on, if it is here.
        trust: load members of other origin, whose code runs, see ``predict``.
        seed: seed of the sampled negatives.
        progress: shows how many answers are ranked.

    For example::

        (found,) = relens.classify("runs/patterns", [("site_11_20", "northeast_neighbour", "site_12_21")])
        print(found.true, found.value, found.threshold)
    """
    return Ensemble.open(run, weights, device, facts=facts, trust=trust).classify(triples, seed=seed, progress=progress)


def discover(
    run: Run | Path | str,
    *,
    relations: Sequence[str] = (),
    entities: Sequence[str] = (),
    top: int | None = None,
    confidence: float | None = None,
    each: bool = False,
    candidates: CandidatesOption = LIKELY,
    depth: int = DEPTH,
    parts: Path | str | None = None,
    weights: str | None = None,
    device: str = "auto",
    trust: bool = False,
    progress: Progress = SILENT,
) -> Iterator[NewFact]:
    """Return an iterator over the best facts that are not in the data set of a run, best first.

    Memory does not grow with the number of pairs of entities.

    Args:
        run: a run with trained models and weights.
        relations: labels or readable names of relations; empty for all.
        entities: labels or readable names; every fact has one of these entities. Empty for any.
        top: how many facts; None for 100, or with ``confidence`` for all of them.
        confidence: leave out facts with less, or without one.
        each: return the best ``top`` of each relation, one relation after the other.
        candidates: the entities that may be in a fact: ``likely``, ``observed`` in train, ``types``, ``all``, a file
            with a line for each entity, or a list of entities.
        depth: how many of the best answers of each query are considered.
        parts: a folder that keeps finished relations, so that the same call resumes; it is left for the caller to
            remove. None keeps nothing.
        weights: the name of the weights in the run; None for ``dsc``, or the only ones there are.
        device: where models run; ``auto`` for the device that the run was ranked on, if it is here.
        trust: load members of other origin, whose code runs, see ``predict``.
        progress: receives progress and notes.

    For example::

        for fact in relens.discover("runs/patterns", relations=["northeast_neighbour"], top=3):
            print(fact.head, fact.relation, fact.tail, fact.confidence)
    """
    return Ensemble.open(run, weights, device, trust=trust).discover(
        relations=relations,
        entities=entities,
        top=top,
        confidence=confidence,
        each=each,
        candidates=candidates,
        depth=depth,
        parts=None if parts is None else Path(parts),
        progress=progress,
    )
