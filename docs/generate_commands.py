"""Write ``docs/commands.md`` from the commands themselves: ``python docs/generate_commands.py``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from relens.cli import cli

TARGET = Path(__file__).parent / "commands.md"
WIDTH = 100
INTRODUCTION = """\
# Commands

Results go to stdout, progress and messages to stderr. `--json` prints results for programs. Exit codes: 0 success,
1 failure, 2 wrong usage or input, 130 interrupted (by Ctrl-C, SIGTERM, or a closed terminal).
No command asks questions.

This page is what `relens COMMAND --help` says, written by `python docs/generate_commands.py`.
"""


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the full name and the help of each command below a group, groups before what they hold."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        inner = click.Context(
            command, parent=context, info_name=name, max_content_width=WIDTH, terminal_width=WIDTH,
            help_option_names=context.help_option_names,
        )  # fmt: skip
        yield inner.command_path, command.get_help(inner)
        if isinstance(command, click.Group):
            yield from commands(command, inner)


def page() -> str:
    """Return the whole page."""
    found = list(commands(cli, click.Context(cli, info_name="relens", **cli.context_settings)))
    links = [f"[{name.removeprefix('relens ')}](#{name.replace(' ', '-')})" for name, _ in found]
    sections = [f"## {name}\n\n```text\n{text.rstrip()}\n```\n" for name, text in found]
    return "\n".join([INTRODUCTION, " · ".join(links) + "\n", *sections])


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.read_text(encoding="utf-8") == page() else f"{TARGET} is old: run {sys.argv[0]}")
    TARGET.write_text(page(), encoding="utf-8")
    sys.stderr.write(f"wrote {TARGET}\n")
