"""``relens evaluate``: metrics of weights, or of one model, on a split."""

import re
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from relens import api
from relens.cli.console import TerminalProgress, note
from relens.cli.evaluate_questions import QUESTIONS, evaluate_question
from relens.cli.opening import open_ensemble
from relens.cli.options import (
    candidates_option,
    device_option,
    format_option,
    hold,
    jobs_option,
    json_option,
    output_option,
    run_argument,
    seed_option,
    show,
    trust_option,
    weights_option,
)
from relens.data.queries import EVALUATED
from relens.ensemble.objective import model_mrrs
from relens.ensemble.weights import EnsembleWeights
from relens.evaluation import PARTS, Evaluation
from relens.evaluation import evaluate as evaluate_ensemble
from relens.files import write_json
from relens.runs import Run
from relens.staleness import fits
from relens.tables import breakdown_table, evaluation_table


@click.command()
@run_argument
@weights_option
@click.option("--model", help="Evaluate this model alone instead of weights.")
@click.option("--split", type=click.Choice(EVALUATED), default="test", show_default=True, help="Split to evaluate on.")
@candidates_option
@click.option("--by", type=click.Choice(PARTS), multiple=True, help="Add a table by part; may be given several times.")
@click.option(
    "--question", type=click.Choice(QUESTIONS), default=QUESTIONS[0], show_default=True,
    help="What is asked: missing entities, from the ranks of the run; relations between two entities, or whether a "
    "triple is true, from its models.",
)  # fmt: skip
@seed_option
@jobs_option
@device_option
@trust_option
@format_option
@json_option
@output_option
def evaluate(
    run_path: Path,
    name: str | None,
    model: str | None,
    split: str,
    candidates: str | None,
    by: tuple[str, ...],
    question: str,
    seed: int,
    jobs: int,
    device: str,
    trust: bool,
    form: str,
    as_json: bool,
    output: Path | None,
) -> None:
    """Evaluate ensemble weights of RUN on a split: MRR, Hit@1/3/10, mean rank, intervals, and a paired test.

    Ranks are realistic: tied candidates share their mean rank. The optimistic and pessimistic MRR are given as well.
    The reference of the paired test is the model with the best validation MRR among the models that are combined. The
    result is also written to RUN/evaluations.

    --question relation ranks the relation of each triple, on a scale that validation chose. --question classify tells
    the triples from false ones, by thresholds fitted on validation; the false ones are those of valid_negatives.txt and
    test_negatives.txt if the data set has them, and sampled ones otherwise.

    With --candidates, answers compete with other candidates than RUN was ranked among. Packed ranks do not tell who the
    candidates are, so the trained models of RUN rank valid and the split again, on --device. The ranks and evaluations
    of RUN stay; the result has a file of its own. Of relations, those compete that both entities may have.
    """
    if model is not None and name is not None:
        raise click.UsageError("--model and --weights exclude each other: choose what to evaluate")
    if question != QUESTIONS[0] and (model is not None or set(by) - {"relation"}):
        raise click.UsageError(
            f"--question {question} goes with --weights and --by relation, not with --model or others"
        )
    run = hold(run_path)
    if question != QUESTIONS[0]:
        name = run.choose_weights(name)
        ensemble = open_ensemble(
            {"run_path": run_path, "name": name, "device": device, "candidates": candidates, "trust": trust}
        )
        tables, record = evaluate_question(ensemble, name, question, split, seed=seed, by=by)
        show(tables, "json" if as_json else form, output, record)
        return
    if candidates is not None:
        evaluation = api.evaluate_among(
            run, candidates, weights=name, model=model, split=split, device=device, trust=trust, seed=seed,
            jobs=jobs, progress=TerminalProgress(),
        )  # fmt: skip
        _show(run, evaluation, by, "json" if as_json else form, output, candidates=evaluation.provenance.candidates)
        return
    name, weights = load_weights(run, name) if model is None else (model, None)
    packed = run.ranks(split)
    if weights is not None and set(weights.models) < set(packed.models):
        packed = packed.select_models(weights.models)
    evaluated = name if weights is None else weights
    reference = _best_single(run, packed.models, jobs)
    evaluation = evaluate_ensemble(packed, evaluated, name=name, reference=reference, seed=seed, jobs=jobs)
    _show(run, evaluation, by, "json" if as_json else form, output)


def _show(
    run: Run, evaluation: Evaluation, by: tuple[str, ...], form: str, output: Path | None, candidates: str | None = None
) -> None:
    """Keep an evaluation in the run and print it. ``candidates`` are those that were chosen for it, if any were."""
    among = evaluation.settings.get("fitted_among")
    if among is not None:
        note(
            f"warning: the weights were fitted on ranks among other candidates ({among}) than these "
            f"({evaluation.provenance.candidates}): search on ranks of the same candidates for weights that fit them"
        )
    path = run.evaluation_path(_file_name(evaluation.name), evaluation.provenance.split, candidates)
    write_json(path, evaluation.to_json())
    if "cardinality" in by and not evaluation.by_cardinality:
        note("the cardinality classes are unknown: import or pack the ranks with --data, which counts training triples")
        by = tuple(part for part in by if part != "cardinality")
    tables = [evaluation_table(evaluation), *(breakdown_table(evaluation, part) for part in by)]
    show(tables, form, output, evaluation.to_json())


def _best_single(run: Run, models: Sequence[str], jobs: int) -> str | None:
    """Return the one of ``models`` with the best validation MRR; None if the run has no validation ranks of them."""
    valid = run.ranks("valid") if run.has_ranks("valid") else None
    if valid is None or not valid.n_queries or not set(models) <= set(valid.models):
        return None
    return models[int(np.argmax(model_mrrs(valid.select_models(models), jobs=jobs)))]


def _file_name(name: str) -> str:
    """Return a file name for a model, whose own name may contain any printable character."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip("._+-")[:100] or "model"


def load_weights(run: Run, name: str | None) -> tuple[str, EnsembleWeights]:
    """Load weights of a run and return them with their name; see ``Run.choose_weights``. Note if they are stale."""
    name = run.choose_weights(name)
    found = run.weights(name)
    if run.has_ranks("valid") and not fits(found, run.ranks("valid")):
        note(
            f"warning: the weights {name} were fitted on other validation ranks than the run has now: search again "
            f"with `relens search {run.path}`"
        )
    return name, found
