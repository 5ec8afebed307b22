"""Run campaigns, print what was tried and survived, and exit with 1 if there is a defect.

``python -m campaigns --seed 0`` runs all of them, one after the other; ``python -m campaigns floods kills`` runs these.
"""

import argparse
import importlib
import pkgutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import campaigns
from campaigns.tally import Tally
from relens.files import write_json

SHOWN = 5
"""Defects of each attack that are printed; the file of ``--output`` has all."""


def names() -> list[str]:
    """Return the names of all campaigns: the modules of this package that define one."""
    # Modules of targets import what they attack; a process of the fuzz campaign does that.
    found = [
        module.name
        for module in pkgutil.iter_modules(campaigns.__path__)
        if module.name != "__main__" and not module.name.endswith("_targets")
    ]
    return [name for name in found if hasattr(importlib.import_module(f"campaigns.{name}"), "campaign")]


def run(name: str, amount: float, seed: int) -> dict[str, Tally]:
    """Run a campaign in a folder of its own, and print a line for each of its attacks."""
    module = importlib.import_module(f"campaigns.{name}")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        found: dict[str, Tally] = module.campaign(amount, seed, Path(folder))
    for attack, tally in found.items():
        print(f"{name} {attack}: tried {tally.tried:,}, survived {tally.survived:,}, defects {len(tally.defects)}")
        for defect in sorted(set(tally.defects))[:SHOWN]:
            print(f"  {defect}")
    print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the campaigns that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m campaigns", description="Run campaigns of attacks on relens.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"campaigns (default: all): {', '.join(names())}")
    parser.add_argument("--amount", type=float, default=1.0, help="share of the full campaigns (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices (default: 0)")
    parser.add_argument("--output", type=Path, help="write a JSON file with all tallies")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(names()):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; available: {', '.join(names())}")
    found = {name: run(name, asked.amount, asked.seed) for name in asked.names or names()}
    if asked.output:
        write_json(asked.output, {"seed": asked.seed, "amount": asked.amount, "campaigns": _plain(found)})
    sys.exit(any(tally.defects for tallies in found.values() for tally in tallies.values()))


def _plain(found: dict[str, dict[str, Tally]]) -> Any:
    return {name: {attack: vars(tally) for attack, tally in tallies.items()} for name, tallies in found.items()}


if __name__ == "__main__":
    main()
