"""Write a report: gather the results of a run, draw the figures, render the page."""

from pathlib import Path

from relens.ensemble.learning_curves import Curve, curves_from_json, curves_to_json, measure_curves
from relens.errors import InputError, MissingExtraError
from relens.files import read_json, whole_folder, write_json, write_text
from relens.progress import SILENT, Progress
from relens.reports.figures import draw_comparison, draw_curves, draw_relations, draw_training, draw_weights
from relens.reports.graph import graph_table
from relens.reports.material import Material, gather
from relens.reports.page import GENERATOR, render
from relens.reports.relations import RelationRow, relation_rows, relations_csv
from relens.reports.reliability import draw_reliability
from relens.reports.style import Drawing, figure_style
from relens.reports.times import render_times
from relens.runs import Run
from relens.tables.results import by_mrr

PAGE, LOG, RELATIONS, GRAPH = "index.html", "log.html", "relations.csv", "graph.csv"
"""The files of a report, beside its figures: the page, its times, and tables with all relations."""
CURVES = "curves.json"
"""The file of a run that keeps its learning curves."""


def write_report(run: Run, folder: Path, *, curves: bool = False, progress: Progress = SILENT) -> Path:
    """Write the report of a run, which the caller holds, and return the path of the page; see ``relens.report``.

    ``folder`` must be empty, absent, an earlier report, which is replaced, or the place of the run's own report, which
    may be damaged.
    """
    check_extra()
    if folder != run.report_path:
        _check_vacant(folder)
    material = gather(run, progress=progress)
    found = kept_or_measured(material, progress, measure=curves)
    rows = relation_rows(material)
    with whole_folder(folder) as aside:
        (aside / "figures").mkdir()
        drawings = draw(material, rows, found, aside / "figures")
        graph = graph_table(material.dataset)
        write_text(aside / RELATIONS, relations_csv(material, rows))
        if graph is not None:
            write_text(aside / GRAPH, graph.to_csv())
        times = render_times(material, found, drawings.get("curves"), PAGE)
        if times:
            write_text(aside / LOG, times)
        write_text(aside / PAGE, render(material, rows, drawings, graph, LOG if times else ""))
    return folder / PAGE


def kept_or_measured(material: Material, progress: Progress, *, measure: bool) -> list[Curve]:
    """Return the learning curves that the run keeps for its ranks, or ``measure`` and keep them."""
    path = material.run.path / CURVES
    if measure:
        seed = material.evaluation(material.ensemble).seed
        curves = measure_curves(material.valid, seed=seed, progress=progress)
        write_json(path, curves_to_json(curves, material.valid))
        return curves
    if not path.is_file():
        return []
    remedy = f"Measure them again with `relens report {material.run.path} --curves`."
    return curves_from_json(read_json(path, "learning curves", remedy), material.valid, str(path)) or []


def draw(material: Material, rows: list[RelationRow], curves: list[Curve], folder: Path) -> dict[str, Drawing]:
    """Draw the figures that have data, and return them by name."""
    comparison = material.comparison
    own, shared = material.group_weights(), material.shared_weights()
    by_relation = material.evaluation(material.ensemble).by_relation
    ours = {label: metrics.mrr for label, metrics in by_relation.items()}
    with figure_style():
        drawn = [
            draw_comparison(by_mrr(comparison.evaluations), comparison.best_single, material.ensemble, folder),
            draw_weights((material.ensemble, own), shared and shared[1], rows, folder) if own else None,
            draw_relations(comparison.spread, ours, folder),
            draw_training(material.trainings, folder) if material.trainings else None,
            draw_curves(curves, folder) if curves else None,
            draw_reliability(material.reliability, folder) if material.reliability else None,
        ]
    return {drawing.name: drawing for drawing in drawn if drawing is not None}


def check_extra() -> None:
    """Raise an error if the packages of the extra ``report`` are missing."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("the report", "report") from error


def _check_vacant(folder: Path) -> None:
    """Raise an error if the folder has content that is not a report."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    page = folder / PAGE
    if folder.exists() and not (page.is_file() and GENERATOR in page.read_text(encoding="utf-8", errors="replace")):
        raise InputError(
            f"{folder} exists and is not a report: choose another folder with `folder=DIR`, or empty this one."
        )
