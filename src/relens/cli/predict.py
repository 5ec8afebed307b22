"""``relens predict`` and ``relens serve``: answers of the ensemble of a run, in the terminal or as a service."""

import csv
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from relens.cli.console import TerminalProgress, note
from relens.cli.options import (
    device_option,
    json_option,
    output_option,
    restriction_option,
    run_argument,
    show,
    weights_option,
)
from relens.errors import InputError, MissingExtraError
from relens.files import whole_file
from relens.prediction import KNOWN, Asked, Ensemble, Predictions
from relens.runs import Run
from relens.tables import Column, Row, Table
from relens.visible import visible, visible_json

if TYPE_CHECKING:
    from _csv import Writer

COLUMNS = ("anchor", "relation", "direction", "answer", "name", "rank", "score", "confidence", "known", "votes")


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
@click.option("--relation", help="The relation: its label or readable name.")
@click.option(
    "--queries", "file", type=click.Path(path_type=Path), metavar="FILE",
    help="Answer all questions of a file: lines 'anchor TAB relation TAB tail|head', or JSON objects with the keys "
    "anchor, relation, direction; .gz too.",
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
@click.option("--method", hidden=True, expose_value=False, callback=_no_method)
@device_option
@json_option
@output_option
def predict(
    run_path: Path,
    head: str | None,
    tail: str | None,
    relation: str | None,
    file: Path | None,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Answer questions about the graph of RUN: the best tails for --head and --relation, or heads for --tail.

    Each answer has its rank under the ensemble and under every model with a weight. As in the evaluation, other known
    answers are removed. The confidence is the share of validation queries of the same group whose missing answer had
    that rank. Models run on the device that the run was ranked on, if it is here. A file of questions is answered in
    tab-separated lines, or in JSON lines with --json.
    """
    _check_question(head, tail, relation, file)
    ensemble = open_ensemble(
        Run.open(run_path), options["name"], options["device"], options["facts"], options["candidates"]
    )
    asked = Asked(options["top"], options["known"], options["explain"])
    if file is not None:
        _answer_file(ensemble, file, asked, as_json=as_json, output=output)
        return
    found = ensemble.predict(head=head, tail=tail, relation=str(relation), **asked._asdict())
    tables = [prediction_table(found, ensemble), *([paths_table(found)] if asked.explain else [])]
    show(tables, "json" if as_json else "text", output, found.to_json())


def open_ensemble(
    run: Run, weights: str | None, device: str, facts: Path | None, candidates: str | None = None
) -> Ensemble:
    """Open the ensemble of a run; note given facts, and other candidates or another device than before."""
    ensemble = Ensemble.open(run, weights, device, facts=facts, candidates=candidates)
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
    if [head, tail, file].count(None) != 2:
        raise click.UsageError("give one of --head, --tail and --queries: the known part of the fact")
    if file is None and relation is None:
        raise click.UsageError("give --relation: the relation of the fact")
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
        Column("answer", align="left"),
        *([Column("name", align="left")] if named else []),
        Column("known", align="left"),
        Column("confidence if missing", ".0%"),
        Column("score", ".4g"),
        *(Column(f"{model} ×{weight:.2f}", ",g") for model, weight in voters.items()),
    )
    rows = tuple(
        Row(
            (
                answer.rank,
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
        "confidence: how often a missing answer had this rank on validation; it means nothing if none is missing",
    )
    return Table(found.question, columns, rows, facts, notes)


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


def _answer_file(ensemble: Ensemble, file: Path, asked: Asked, *, as_json: bool, output: Path | None) -> None:
    """Stream the answers to all questions of a file."""
    from relens.prediction.questions import read_questions

    questions = read_questions(file, ensemble)
    answers = ensemble.predict_many(questions, **asked._asdict(), progress=TerminalProgress())
    with _opened(output) as out:
        if as_json:
            for found in answers:
                out.write(visible_json(found.to_json()) + "\n")
        else:
            _write_rows(csv.writer(out, dialect="excel-tab", lineterminator="\n"), answers, explain=asked.explain)
    if output is not None:
        note(f"wrote {output}")


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    """Yield stdout, or a file that appears when everything is written."""
    if output is None:
        yield sys.stdout
        return
    with whole_file(output) as aside, aside.open("w", encoding="utf-8") as out:
        yield out


def _write_rows(writer: "Writer", answers: Iterable[Predictions], *, explain: bool) -> None:
    """Write a line per answer; votes are ``model:rank:weight``, paths ``model:importance path``."""
    writer.writerow([*COLUMNS, *(["paths"] if explain else [])])
    for found in answers:
        for answer in found:
            votes = " ".join(f"{vote.model}:{vote.rank:g}:{vote.weight:.4f}" for vote in answer.votes)
            confidence = "" if answer.confidence is None else f"{answer.confidence:.4f}"
            writer.writerow(
                [
                    found.anchor, found.relation, found.direction, answer.entity, answer.name or "",
                    f"{answer.rank:g}", f"{answer.score:.6g}", confidence, answer.known or "", votes,
                    *(["; ".join(f"{path.model}:{path.importance:.4g} {path}" for path in answer.paths or ())]
                      if explain else []),
                ]
            )  # fmt: skip


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
        ensemble = open_ensemble(run, name, device, facts, candidates)
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
