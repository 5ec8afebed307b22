"""Run campaigns, print a table of what was tried and survived, and exit with 1 if there is a defect.

``python -m campaigns --seed 0`` runs all of them, two at a time; ``python -m campaigns floods kills`` runs these.
"""

import argparse
import importlib
import pkgutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import campaigns
from campaigns.tally import Tally
from relens.files import read_json, write_json
from relens.tables import Column, Row, Table

SHOWN = 5
"""Different defects of each attack that are printed; the file of ``--output`` has all."""

Tallies = dict[str, Tally]
"""The tally of each attack of a campaign, by name."""


def names() -> list[str]:
    """Return the names of all campaigns: the modules of this package that define one."""
    # Modules of targets import what they attack; a process of the fuzz campaign does that.
    found = [
        module.name
        for module in pkgutil.iter_modules(campaigns.__path__)
        if module.name != "__main__" and not module.name.endswith("_targets")
    ]
    return [name for name in found if hasattr(importlib.import_module(f"campaigns.{name}"), "campaign")]


def run(name: str, amount: float, seed: int) -> Tallies:
    """Run a campaign in a folder of its own."""
    module = importlib.import_module(f"campaigns.{name}")
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        found: Tallies = module.campaign(amount, seed, Path(folder))
    return found


def run_apart(name: str, amount: float, seed: int) -> Tallies:
    """Run a campaign in a process of its own; a campaign that fails itself is a defect."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        output = Path(folder) / "tallies.json"
        command = [sys.executable, "-m", "campaigns", name, "--amount", str(amount), "--seed", str(seed)]
        done = subprocess.run([*command, "--output", str(output)], capture_output=True, text=True, check=False)
        print(f"{name}: {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        if not output.is_file():
            return {"campaign": Tally(1, 0, [f"the campaign failed: {done.stderr[-2000:]}"])}
        found = read_json(output, "tallies")["campaigns"][name]
    return {attack: Tally(**tally) for attack, tally in found.items()}


def table(found: dict[str, Tallies]) -> Table:
    """Return a row for each attack."""
    columns = (
        Column("campaign", align="left"),
        Column("attack", align="left"),
        Column("tried", ",d"),
        Column("survived", ",d"),
        Column("defects", ",d"),
    )
    rows = [
        Row((name, attack.replace("_", " "), tally.tried, tally.survived, len(tally.defects)))
        for name, tallies in found.items()
        for attack, tally in tallies.items()
    ]
    return Table("Campaigns", columns, tuple(rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the campaigns that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m campaigns", description="Run campaigns of attacks on relens.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"campaigns (default: all): {', '.join(names())}")
    parser.add_argument("--amount", type=float, default=1.0, help="share of the full campaigns (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="campaigns at a time (default: 2)")
    parser.add_argument("--output", type=Path, help="write a JSON file with all tallies")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(names()):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; available: {', '.join(names())}")
    begin = time.monotonic()
    chosen = asked.names or names()
    if len(chosen) == 1:
        found = {chosen[0]: run(chosen[0], asked.amount, asked.seed)}
    else:
        with ThreadPoolExecutor(asked.jobs) as pool:
            tallies = pool.map(lambda name: run_apart(name, asked.amount, asked.seed), chosen)
            found = dict(zip(chosen, tallies, strict=True))
    seconds = round(time.monotonic() - begin)
    print(table(found).to_text())
    for name, by_attack in found.items():
        for attack, tally in by_attack.items():
            for defect in sorted(set(tally.defects))[:SHOWN]:
                print(f"{name}, {attack}: {defect}")
    if asked.output:
        values = {name: {attack: asdict(tally) for attack, tally in own.items()} for name, own in found.items()}
        write_json(asked.output, {"seed": asked.seed, "amount": asked.amount, "seconds": seconds, "campaigns": values})
    sys.exit(any(tally.defects for by_attack in found.values() for tally in by_attack.values()))


if __name__ == "__main__":
    main()
