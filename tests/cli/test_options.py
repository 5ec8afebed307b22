"""Messages of the library name Python arguments; the command line shows its own options instead."""

import click
import pytest

from relens.cli import cli, with_options
from tests.cli.commands import fail


@click.command()
@click.option("--force", is_flag=True)
@click.option("--report/--no-report", default=True)
@click.option("--relations", "n_relations", type=int)
@click.option("-o", "--output", type=click.Path())
@click.option("--max-models", type=int)
@click.option("--run", "run_path")
@click.option("--device", "--devices", "devices")
@click.option("--method", hidden=True)
@click.argument("data")
def command() -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass `force=True` to replace them", "pass --force to replace them"),
        ("leave it out with `report=False`", "leave it out with --no-report"),
        ("pass `report=True`", "pass --report"),
        ("say how many: `n_relations=R`", "say how many: --relations R"),
        ("or choose `output=DIR`.", "or choose --output DIR."),
        ("at most `max_models=3`", "at most --max-models 3"),
        ("another with `run=PATH`", "another with --run PATH"),
        ('use `device="cpu"`, or `devices=cuda:0`', "use --device cpu, or --device cuda:0"),
        ("`force=True` and `report=False`", "--force and --no-report"),
    ],
)
def test_an_argument_becomes_the_option_of_its_parameter(message, shown):
    assert with_options(message, command) == shown


@pytest.mark.parametrize(
    "message",
    [
        "pass `trials=3`",  # no such option
        "pass `data=FOLDER`",  # an argument, not an option
        "pass `method=dsc`",  # hidden
        "leave `force=False`",  # a flag without a second form
        "convert it with `relens upgrade runs/a=b`",
        "found a=b, expected `key`",
    ],
)
def test_arguments_without_an_option_stay(message):
    assert with_options(message, command) == message


def test_messages_of_commands_and_of_nested_commands_are_rewritten(run_path):
    for name in ("mean", "greedy"):
        cli.main(["search", str(run_path), "--method", name], standalone_mode=False)
    fail(2, "has several weights: choose one with --weights {greedy,mean}", "evaluate", run_path)
    fail(2, "has several weights: choose one with --weights {greedy,mean}", "weights", "show", run_path)
    fail(2, "not on 'patterns': choose another with --run PATH", "run", "patterns", "--run", run_path, "--no-report",
         "--device", "cpu")  # fmt: skip
