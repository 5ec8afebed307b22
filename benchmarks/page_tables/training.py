"""Tables of training: speed compared with PyKEEN, distance to the limits of the hardware, results of tuning."""

from reproduction.evidence import ROOT, SIX, load

from .markdown import table

HEADINGS = {
    "training": {
        "pykeen": "PyKEEN",
        "relens, negatives per row": "relens, negatives per row",
        "relens, its own recipe": "relens, shared pools",
    },
    "ranking": {
        "pykeen": "PyKEEN",
        "relens, making the filter": "relens, building the filter",
        "relens": "relens, filter at hand",
    },
}
UNITS = {"training": "examples/s", "ranking": "queries/s"}


def pykeen(report: str, part: str) -> str:
    """Return the rates of PyKEEN and of relens in a ``part`` of a report, and how many times faster relens is."""
    rows = []
    for model, found in load(report)[part].items():
        cells = []
        for name in HEADINGS[part]:
            times = f" ({found['ratios'][name]:.1f}×)" if name in found["ratios"] else ""
            cells.append(f"{found['rows'][name]['median']:,.0f}{times}")
        rows.append([f"{SIX[model]}, {part}, {UNITS[part]}", *cells])
    return table(["", *HEADINGS[part].values()], rows)


def limits() -> str:
    """Return the time of a step, and the lower bound from its bytes and operations."""
    rows = []
    for name, title in SIX.items():
        model = load("training-h200")["limits"]["models"][name]
        times = model["milliseconds"]["median"], 1e3 * model["bound"]["seconds"]
        rows.append([title, *(f"{time:.2f}" for time in times), f"{model['share']:.0%}".replace("%", " %")])
    return table(["", "ms per step", "bound, ms", "share"], rows)


def tuned(dataset: str, model: str, *settings: str) -> float:
    """Return the best validation MRR of the variant that has these settings, the plainest one if several have them."""
    lines = (ROOT / "docs/results/tuning-h200.txt").read_text(encoding="utf-8").splitlines()
    found: dict[int, list[float]] = {}
    for line in lines:
        words, best, *_ = (part.split() for part in line.split(" | "))
        if words[:2] == [dataset, model] and set(settings) <= set(words[2:]):
            found.setdefault(len(words), []).append(float(best[1]))
    plainest = found[min(found)] if found else []
    if len(plainest) != 1:
        raise LookupError(f"{len(plainest)} variants of {model} on {dataset} have {' '.join(settings)}")
    return plainest[0]
