"""``relens predict``: answers to questions for tails, heads and relations."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from relens.cli.answer_tables import (
    answer_fields,
    paths_table,
    prediction_table,
    records_of,
    relation_fields,
    relation_table,
)
from relens.cli.console import TerminalProgress, note
from relens.cli.opening import open_ensemble, opening_options
from relens.cli.options import json_option, output_option, show, stream_form, stream_option
from relens.prediction import KNOWN, Asked, Ensemble, Predictions, RelationPredictions
from relens.tables.streams import Field, named_form, write_records


def _no_method(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Point users of --method to --weights: the method was chosen when the weights were searched."""
    if value is not None:
        raise click.UsageError(f"No such option '--{param.name}'. Did you mean '--weights', the name of a method?", ctx)


@click.command()
@opening_options
@click.option("--head", help="Predict tails of this entity: its label or readable name.")
@click.option("--tail", help="Predict heads of this entity.")
@click.option(
    "--relation",
    help="The relation: its label or readable name; leave it out to ask for the relation of --head and --tail.",
)
@click.option(
    "--queries", "file", type=click.Path(path_type=Path), metavar="FILE",
    help="Answer all questions of a file: lines 'anchor TAB relation TAB tail|head', or JSON objects with the keys "
    "anchor, relation, direction; .gz too. Lines 'head TAB tail TAB relation', or the keys head and tail, ask for "
    "relations.",
)  # fmt: skip
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="How many new answers.")
@click.option(
    "--known", type=click.Choice(KNOWN), default="mark", show_default=True,
    help="Facts of the data set: mark adds the best of them, at most --top, and shows their split; drop leaves them "
    "out.",
)  # fmt: skip
@click.option(
    "--explain", is_flag=True,
    help="Show the paths through the graph that carried the score of each answer. The run needs a model that "
    "propagates (nbfnet).",
)  # fmt: skip
@click.option("--method", hidden=True, expose_value=False, callback=_no_method)
@stream_option
@json_option
@output_option
def predict(
    head: str | None,
    tail: str | None,
    relation: str | None,
    file: Path | None,
    output: Path | None,
    form: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Answer questions about the graph of RUN: the best tails, heads or relations.

    Each answer has its rank under the ensemble and under every model with a weight. As in the evaluation, other known
    answers are removed. Its place leaves out the entity in the question, too, if it cannot be an answer. The confidence
    is the probability that the answer is a missing fact, calibrated on validation (`relens calibrate`). Models run on
    the device that the run was ranked on, if it is here.

    --head and --tail without --relation ask for the relation between them. Scores of different relations are made
    comparable on a scale that validation chose.

    A file of questions is answered in a line per answer, or in JSON with an object per question; --format or the ending
    of --output chooses among TSV, CSV, JSON lines and Parquet. They do so for one question, too.
    """
    _check_question(head, tail, relation, file)
    streamed = None
    if file is not None or form is not None or (named_form(output) is not None and not as_json):
        streamed = stream_form(output, form, as_json=as_json)
    ensemble = open_ensemble(options)
    asked = Asked(options["top"], options["known"], options["explain"])
    if file is not None:
        _answer_file(ensemble, file, asked, output, str(streamed))
        return
    found: Predictions | RelationPredictions
    if relation is None:
        _check_relation_options(asked)
        found = ensemble.predict_relations(
            head=str(head), tail=str(tail), top=asked.top, known=asked.known, progress=TerminalProgress()
        )
        fields, tables = relation_fields(ensemble), [relation_table(found, ensemble)]
    else:
        found = ensemble.predict(head=head, tail=tail, relation=relation, **asked._asdict())
        fields = answer_fields(ensemble, explain=asked.explain)
        tables = [prediction_table(found, ensemble), *([paths_table(found)] if asked.explain else [])]
    if streamed is not None:
        _write_answers([found], output, streamed, fields)
        return
    show(tables, "json" if as_json else "text", output, found.to_json())


def _answer_file(ensemble: Ensemble, file: Path, asked: Asked, output: Path | None, form: str) -> None:
    """Answer all questions of a file."""
    from relens.prediction.questions import RELATION, read_questions

    questions, progress = read_questions(file, ensemble), TerminalProgress()
    if questions[0][2] == RELATION:
        _check_relation_options(asked)
        pairs = [question[:2] for question in questions]
        relations = ensemble.predict_relations_many(pairs, top=asked.top, known=asked.known, progress=progress)
        _write_answers(relations, output, form, relation_fields(ensemble))
        return
    answers = ensemble.predict_many(questions, **asked._asdict(), progress=progress)
    _write_answers(answers, output, form, answer_fields(ensemble, explain=asked.explain))


def _check_question(head: str | None, tail: str | None, relation: str | None, file: Path | None) -> None:
    """Raise an error unless exactly one form of question is given."""
    if file is None and relation is None and (head is None) != (tail is None):
        raise click.UsageError("give --relation: the relation of the fact; or both --head and --tail, to ask for it")
    asks_relation = file is None and relation is None and None not in (head, tail)
    if [head, tail, file].count(None) != 2 and not asks_relation:
        raise click.UsageError(
            "give one of --head, --tail and --queries: the known part of the fact; or --head and --tail without "
            "--relation, to ask for the relation"
        )
    if file is not None and relation is not None:
        raise click.UsageError("--relation goes with --head and --tail: a file of --queries names its own relations")


def _check_relation_options(asked: Asked) -> None:
    """Raise an error for an option that does not go with questions for relations."""
    if asked.explain:
        raise click.UsageError("--explain shows paths to entities: it does not go with a question for relations")


def _write_answers(
    answers: Iterable[Predictions | RelationPredictions], output: Path | None, form: str, fields: Sequence[Field]
) -> None:
    """Stream the answers to questions: JSON lines with an object per question, otherwise a row per answer."""
    rows = (row for found in answers for row in records_of(found))
    write_records((found.to_json() for found in answers) if form == "jsonl" else rows, fields, output, form)
    if output is not None:
        note(f"wrote {output}")
