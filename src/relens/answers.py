"""The verbs that ask a run's ensemble: ``predict``, ``score``, ``classify`` and ``discover``.

Each opens the run and asks once; ``Ensemble.open(run)`` keeps the models in memory, for several questions. The options
``opening`` of all of them are those of ``Ensemble.open``: ``weights`` (the name of the weights; ``dsc``, or the only
ones there are), ``device``, ``trust``, ``facts`` and ``candidates``. ``relens`` exports all of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Unpack, overload

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
from relens.prediction.discovery import Request
from relens.prediction.opening import Opening
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
    **opening: Unpack[Opening],
) -> Predictions: ...
@overload
def predict(
    run: Run | Path | str,
    *,
    head: str,
    tail: str,
    top: int = 10,
    known: KnownFacts = "mark",
    **opening: Unpack[Opening],
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
    **opening: Unpack[Opening],
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
        opening: ``weights``, ``device``, ``trust``, ``facts`` and ``candidates``, see ``Ensemble.open``.

    Returns:
        A sequence of predictions, best first, each with rank, confidence and the votes of the models.

    For example::

        found = relens.predict("runs/patterns", head="site_11_20", relation="northeast_neighbour", top=3)
        print(found[0].entity, found[0].rank)
    """
    ensemble = Ensemble.open(run, **opening)
    if relation is None:
        if head is None or tail is None:
            raise InputError("give `relation=…` and one of `head=…` and `tail=…`, or both of these without a relation")
        if explain:
            raise InputError("`explain=True` shows paths to entities: it does not go with a question for relations")
        return ensemble.predict_relations(head=head, tail=tail, top=top, known=known)
    return ensemble.predict(head=head, tail=tail, relation=relation, top=top, known=known, explain=explain)


def score(
    run: Run | Path | str, triples: Facts, *, progress: Progress = SILENT, **opening: Unpack[Opening]
) -> tuple[ScoredTriple, ...]:
    """Return the score of each triple, the ranks of its tail and its head, and its probability, in order.

    The ranks are those of the evaluation, also for known triples: other known answers are removed. With ``candidates``
    they are those of ``evaluate_among``, and there is no probability.

    Args:
        run: a run with trained models and weights.
        triples: a file of tab-separated triples, or rows (head, relation, tail); labels or readable names.
        progress: shows how many answers are ranked.
        opening: ``weights``, ``device``, ``trust``, ``facts`` and ``candidates``, see ``Ensemble.open``.

    For example::

        (found,) = relens.score("runs/patterns", [("site_11_20", "northeast_neighbour", "site_12_21")])
        print(found.score, found.tail_rank, found.head_rank)
    """
    return Ensemble.open(run, **opening).score(triples, progress=progress)


def classify(
    run: Run | Path | str, triples: Facts, *, seed: int = 0, progress: Progress = SILENT, **opening: Unpack[Opening]
) -> tuple[ClassifiedTriple, ...]:
    """Return a verdict on each triple, in order: true or false by thresholds that are fitted on validation.

    Each relation has the threshold with the best accuracy on its validation triples and on false ones: those of
    ``valid_negatives.txt`` if the data set has that file, and sampled ones otherwise. ``relens.calibrate`` keeps the
    thresholds in the run. They are fitted again for given facts, for ``candidates``, and for another seed.

    Args:
        run: a run with trained models and weights.
        triples: a file of tab-separated triples, or rows (head, relation, tail); labels or readable names.
        seed: seed of the sampled negatives.
        progress: shows how many answers are ranked.
        opening: ``weights``, ``device``, ``trust``, ``facts`` and ``candidates``, see ``Ensemble.open``.

    For example::

        (found,) = relens.classify("runs/patterns", [("site_11_20", "northeast_neighbour", "site_12_21")])
        print(found.true, found.value, found.threshold)
    """
    return Ensemble.open(run, **opening).classify(triples, seed=seed, progress=progress)


def discover(
    run: Run | Path | str,
    *,
    weights: str | None = None,
    device: str = "auto",
    trust: bool = False,
    parts: Path | str | None = None,
    progress: Progress = SILENT,
    **asked: Unpack[Request],
) -> Iterator[NewFact]:
    """Return an iterator over the best facts that are not in the data set of a run, best first.

    Memory does not grow with the number of pairs of entities.

    Args:
        run: a run with trained models and weights.
        weights, device, trust: see ``Ensemble.open``.
        parts: a folder that keeps finished relations, so that the same call resumes; it is left for the caller to
            remove. None keeps nothing.
        progress: receives progress and notes.
        asked: ``relations`` and ``entities`` (lists of names; all if left out), ``top``, ``confidence``, ``each``,
            ``candidates`` and ``depth``, see ``relens.prediction.discovery.Wanted``.

    For example::

        for fact in relens.discover("runs/patterns", relations=["northeast_neighbour"], top=3):
            print(fact.head, fact.relation, fact.tail, fact.confidence)
    """
    ensemble = Ensemble.open(run, weights, device, trust=trust)
    return ensemble.discover(parts=None if parts is None else Path(parts), progress=progress, **asked)
