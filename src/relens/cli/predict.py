"""``relens predict`` and ``relens serve``: answers of the ensemble of a run, in the terminal or as a service."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from relens.cli.console import TerminalProgress, note
from relens.cli.options import (
    device_option,
    json_option,
    output_option,
    restriction_option,
    run_argument,
    show,
    stream_form,
    stream_option,
    trust_option,
    weights_option,
)
from relens.errors import InputError, MissingExtraError
from relens.prediction import KNOWN, Asked, Ensemble, Predictions, RelationPredictions, Vote
from relens.runs import Run
from relens.tables import Column, Row, Table
from relens.tables.streams import Field, named_form, write_records
from relens.visible import visible

ANSWER_FIELDS = (
    Field("anchor"), Field("relation"), Field("direction"), Field("answer"), Field("name"), Field("rank", float, "g"),
    Field("place", float, "g"), Field("score", float, ".6g"), Field("confidence", float, ".4f"), Field("known"),
    Field("votes"),
)  # fmt: skip
PATHS_FIELD = Field("paths")
RELATION_FIELDS = (
    Field("head"), Field("tail"), Field("relation"), Field("rank", float, "g"), Field("score", float, ".6g"),
    Field("known"), Field("votes"),
)  # fmt: skip


facts_option = click.option(
    "--facts", type=click.Path(path_type=Path), metavar="FILE",
    help="More facts, also of new entities: lines 'head TAB relation TAB tail'; .gz too. Models that propagate "
    "(nbfnet) read them, the others abstain on new entities.",
)  # fmt: skip


def _no_method(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Point users of --method to --weights: the method was chosen when the weights were searched."""
    if value is not None:
        raise click.UsageError(f"No such option '--{param.name}'. Did you mean '--weights', the name of a method?", ctx)


@click.command()
@run_argument
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
@facts_option
@restriction_option
@weights_option
@trust_option
@click.option("--method", hidden=True, expose_value=False, callback=_no_method)
@device_option
@stream_option
@json_option
@output_option
def predict(
    run_path: Path,
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
    ensemble = open_ensemble(
        Run.open(run_path),
        options["name"],
        options["device"],
        options["facts"],
        options["candidates"],
        trust=options["trust"],
    )
    asked = Asked(options["top"], options["known"], options["explain"])
    fields = (*ANSWER_FIELDS, PATHS_FIELD) if asked.explain else ANSWER_FIELDS
    if file is not None:
        from relens.prediction.questions import RELATION, read_questions

        questions = read_questions(file, ensemble)
        if questions[0][2] == RELATION:
            _check_relation_options(asked)
            pairs = [question[:2] for question in questions]
            found_relations = ensemble.predict_relations_many(
                pairs, top=asked.top, known=asked.known, progress=TerminalProgress()
            )
            _write_answers(found_relations, output, str(streamed), RELATION_FIELDS)
            return
        answers = ensemble.predict_many(questions, **asked._asdict(), progress=TerminalProgress())
        _write_answers(answers, output, str(streamed), fields)
        return
    if relation is None:
        _check_relation_options(asked)
        relations = ensemble.predict_relations(head=str(head), tail=str(tail), top=asked.top, known=asked.known)
        if streamed is not None:
            _write_answers([relations], output, streamed, RELATION_FIELDS)
            return
        show([relation_table(relations, ensemble)], "json" if as_json else "text", output, relations.to_json())
        return
    found = ensemble.predict(head=head, tail=tail, relation=str(relation), **asked._asdict())
    if streamed is not None:
        _write_answers([found], output, streamed, fields)
        return
    tables = [prediction_table(found, ensemble), *([paths_table(found)] if asked.explain else [])]
    show(tables, "json" if as_json else "text", output, found.to_json())


def open_ensemble(
    run: Run,
    weights: str | None,
    device: str,
    facts: Path | None,
    candidates: str | None = None,
    *,
    trust: bool = False,
) -> Ensemble:
    """Open the ensemble of a run; note given facts, and other candidates or another device than before."""
    ensemble = Ensemble.open(run, weights, device, facts=facts, candidates=candidates, trust=trust)
    among = "all" if ensemble.restriction is None else ensemble.restriction.name
    if ensemble.weights.fitted_among_others(among):
        note(
            f"the weights were fitted on ranks among other candidates ({ensemble.weights.candidates}) than these "
            f"({among}), so there is no confidence"
        )
    if ensemble.facts is not None:
        note(ensemble.facts.describe())
    ranked, used = (run.made_by() or {}).get("device"), str(ensemble.models.device).partition(":")[0]
    if ranked not in (None, used):
        note(
            f"{run.path} was ranked on {ranked}, its models now run on {used}: scores may differ in the last bit, so "
            f"ranks may differ from those of the evaluation"
        )
    return ensemble


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
    if ensemble.confidence is None:
        return f"no confidence: `relens calibrate {ensemble.run.path}` calibrates it for these weights and models"
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


def _check_relation_options(asked: Asked) -> None:
    """Raise an error for an option that does not go with questions for relations."""
    if asked.explain:
        raise click.UsageError("--explain shows paths to entities: it does not go with a question for relations")


def relation_table(found: RelationPredictions, ensemble: Ensemble) -> Table:
    """Return a table of the relations between two entities, with each model's rank."""
    models = dict.fromkeys(vote.model for answer in found for vote in answer.votes)
    columns = (
        Column("rank", "g"),
        Column("relation", align="left"),
        Column("known", align="left"),
        Column("score", ".4g"),
        *(Column(model, ",g") for model in models),
    )
    rows = []
    for answer in found:
        ranks = {vote.model: vote.rank for vote in answer.votes}
        rows.append(Row((answer.rank, answer.relation, answer.known, answer.score, *map(ranks.get, models))))
    facts = {
        "data set": ensemble.dataset.name,
        "candidates": f"{found.candidates:,} relations, known ones not counted",
        "scale": found.scale,
    }
    notes = ("under a model: its own rank of the relation", "the scale makes relations comparable: validation chose it")
    return Table(found.question, columns, tuple(rows), facts, notes)


def _write_answers(
    answers: Iterable[Predictions | RelationPredictions], output: Path | None, form: str, fields: Sequence[Field]
) -> None:
    """Stream the answers to questions: JSON lines with an object per question, otherwise a row per answer."""
    rows = (row for found in answers for row in (_rows(found) if isinstance(found, Predictions) else _pairs(found)))
    write_records((found.to_json() for found in answers) if form == "jsonl" else rows, fields, output, form)
    if output is not None:
        note(f"wrote {output}")


def _pairs(found: RelationPredictions) -> Iterator[dict[str, Any]]:
    """Yield a record per relation."""
    for answer in found:
        yield {"head": found.head, "tail": found.tail, **answer.to_json(), "votes": _votes(answer.votes)}


def _votes(votes: Iterable[Vote]) -> str:
    """Return votes as ``model:rank:weight``."""
    return " ".join(f"{vote.model}:{vote.rank:g}:{vote.weight:.4f}" for vote in votes)


def _rows(found: Predictions) -> Iterator[dict[str, Any]]:
    """Yield a record per answer; votes are ``model:rank:weight``, paths ``model:importance path``."""
    for answer in found:
        yield {
            "anchor": found.anchor,
            "relation": found.relation,
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
        }


@click.command()
@run_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 picks a free one."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with a token that clients must send. RELENS_TOKEN, an environment variable, holds the token itself.",
)
@click.option(
    "--no-token", is_flag=True, help="Serve other machines without a token: anyone there can use the service."
)
@click.option(
    "--access-log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File to append a line to for each request.  [default: stderr]",
)
@facts_option
@restriction_option
@weights_option
@device_option
@trust_option
def serve(
    run_path: Path,
    host: str,
    port: int,
    token_file: Path | None,
    no_token: bool,
    access_log: Path | None,
    facts: Path | None,
    candidates: str | None,
    name: str | None,
    device: str,
    trust: bool,
) -> None:
    """Serve the ensemble of RUN: a web page for people, a JSON interface for programs.

    The page asks for a relation and a head or a tail. It shows the answers with the vote of every model, and each
    answer can be the next question. /docs lists the requests of the JSON interface. Models run on the device that the
    run was ranked on, if it is here. Ctrl-C stops the service.

    With --host, other machines can reach the service. It then needs a token, or --no-token.
    """
    try:
        from relens.serve import server
        from relens.serve.access import read_token
        from relens.serve.app import create_app, warm_up
    except ImportError as error:
        raise MissingExtraError("serving an ensemble", "serve") from error
    from relens.prediction.opening import check_models

    run = Run.open(run_path)
    check_models(run)
    token = read_token(token_file)
    with server.listen(host, port) as listener, _request_log(access_log) as log:
        server.check_reach(listener, host, token, no_token=no_token)
        note(f"loading the models of {run.path}")
        ensemble = open_ensemble(run, name, device, facts, candidates, trust=trust)
        warm_up(ensemble)
        app = create_app(ensemble, visible(run.name), hosts=server.hosts_of(listener, host), token=token, log=log)
        if token is None and not server.is_loopback(listener):
            note(f"{host} can be reached from other machines: anyone can use the service, there is no token")
        note(f"serving at {server.address(listener)} (Ctrl-C stops it)")
        server.serve(app, listener)
    note("stopped")


@contextmanager
def _request_log(file: Path | None) -> Iterator[TextIO]:
    """Yield stderr, or a file to append to."""
    if file is None:
        yield sys.stderr
        return
    try:
        log = file.open("a", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot write the request log {file}: {error.strerror or error}. Choose another `access_log=FILE`."
        ) from error
    with log:
        yield log
