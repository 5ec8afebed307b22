"""Tables of the campaigns, what was tried and what survived, and of the confidence on the test split."""

import json
from typing import Any

from reproduction.evidence import ROOT

from .markdown import figure, table


def campaigns() -> str:
    """Return a row for each attack, with the numbers tried and survived of each seed."""
    files = sorted((ROOT / "docs/results/campaigns").glob("seed-*.json"))
    found: list[dict[str, Any]] = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    header = ["campaign", "attack"]
    for report in found:
        header += [f"tried, seed {report['seed']}", f"survived, seed {report['seed']}"]
    rows = []
    for name, attacks in found[0]["campaigns"].items():
        for attack in attacks:
            tallies = [report["campaigns"][name][attack] for report in found]
            numbers = [f"{tally[key]:,}" for tally in tallies for key in ("tried", "survived")]
            rows.append([name, attack.replace("_", " "), *numbers])
    return table(header, rows)


def _calibrations() -> list[dict[str, Any]]:
    files = sorted((ROOT / "docs/results").glob("calibration-*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def calibration() -> str:
    """Return a row for each data set and population: the calibration error, and the share without a number."""
    header = ["data set", "answers", "judged", "mean confidence", "facts of test", "calibration error", "no number"]
    rows = []
    for report in _calibrations():
        for found in report["reliability"].values():
            bins = found["bins"]
            total = sum(each["weight"] for each in bins)
            stated, observed = (
                sum(each["weight"] * each[key] for each in bins) / total for key in ("stated", "observed")
            )
            judged = sum(each["answers"] for each in bins)
            numbers = [
                f"{judged:,}",
                f"{stated:.1%}",
                f"{observed:.1%}",
                figure(found["ece"]),
                f"{found['without']:.1%}",
            ]
            rows.append([report["dataset"], found["answers"], *numbers])
    return table(header, rows)


def calibration_bins() -> str:
    """Return the share of facts among the shown answers of all questions, by stated probability, of each data set."""
    reports = _calibrations()
    header = ["confidence"]
    for report in reports:
        header += [f"{report['dataset']}: judged", "mean confidence", "facts of test"]
    by_edge = [{each["low"]: each for each in report["reliability"]["all"]["bins"]} for report in reports]
    rows = []
    for low in sorted(set().union(*by_edge)):
        high = next(bins[low]["high"] for bins in by_edge if low in bins)
        row = [f"{low:.0%}–{high:.0%}"]
        for bins in by_edge:
            each = bins.get(low)
            row += [f"{each['answers']:,}", f"{each['stated']:.1%}", f"{each['observed']:.1%}"] if each else ["–"] * 3
        rows.append(row)
    return table(header, rows)


TABLES = {"campaigns": campaigns, "calibration": calibration, "calibration-bins": calibration_bins}
