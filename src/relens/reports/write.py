"""Writing a report: gather, draw, render, and put the folder in its place whole."""

from pathlib import Path

from relens.errors import InputError, MissingExtraError
from relens.files import read_json, whole_folder, write_json
from relens.progress import SILENT, Progress
from relens.reports.curves import Curve, curves_from_json, curves_to_json, measure_curves
from relens.reports.figures import draw_comparison, draw_curves, draw_relations, draw_training, draw_weights
from relens.reports.material import Material, gather
from relens.reports.page import GENERATOR, render
from relens.reports.relations import RelationRow, relation_rows
from relens.reports.style import Drawing, figure_style
from relens.runs import Run

PAGE = "index.html"
CURVES = "curves.json"


def write_report(run: Run, folder: Path, *, curves: bool = False, progress: Progress = SILENT) -> Path:
    """Write the report of a run into ``folder``, replacing an earlier one, and return the path of the page.

    Args:
        run: a run with ranks of valid and test, held by the caller. Without ``comparison.json``, or with one of other
            ranks, the methods are compared first, and the comparison is kept in the run.
        folder: for the page and its figures; anything but an earlier report is refused.
        curves: measure learning curves of the search, which takes minutes. They are kept in the run, and shown by
            later reports until its ranks change.
        progress: where to show it.
    """
    check_extra()
    _check_vacant(folder)
    material = gather(run, progress=progress)
    found = _curves(material, curves, progress)
    rows = relation_rows(material)
    with whole_folder(folder) as aside:
        (aside / "figures").mkdir()
        drawings = draw(material, rows, found, aside / "figures")
        (aside / PAGE).write_text(render(material, rows, found, drawings), encoding="utf-8")
    return folder / PAGE


def draw(material: Material, rows: list[RelationRow], curves: list[Curve], folder: Path) -> dict[str, Drawing]:
    """Draw every figure there is something to show in, by name."""
    comparison = material.comparison
    dsc, simple = material.weights_of("dsc"), material.weights_of("simple")
    by_relation = material.evaluation(material.ensemble).by_relation
    ours = {label: metrics.mrr for label, metrics in by_relation.items()}
    with figure_style():
        drawn = [
            draw_comparison(comparison.evaluations, comparison.best_single, material.ensemble, folder),
            draw_weights(dsc, simple and simple[1], rows, folder) if dsc else None,
            draw_relations(comparison.spread, ours, folder),
            draw_training(material.trainings, folder) if material.trainings else None,
            draw_curves(curves, folder) if curves else None,
        ]
    return {drawing.name: drawing for drawing in drawn if drawing is not None}


def _curves(material: Material, measure: bool, progress: Progress) -> list[Curve]:
    """Return the learning curves: measured now, or those kept in the run; none where there are none of its ranks."""
    path = material.run.path / CURVES
    if measure:
        seed = material.evaluation(material.ensemble).seed
        curves = measure_curves(material.valid, seed=seed, progress=progress)
        write_json(path, curves_to_json(curves, material.valid))
        return curves
    kept = curves_from_json(read_json(path, "learning curves"), material.valid) if path.is_file() else None
    return kept or []


def check_extra() -> None:
    """Refuse to begin where the packages are missing that a report is drawn and written with."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("the report", "report") from error


def _check_vacant(folder: Path) -> None:
    """Refuse to replace anything but a report."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    page = folder / PAGE
    if folder.exists() and not (page.is_file() and GENERATOR in page.read_text(encoding="utf-8", errors="replace")):
        raise InputError(f"{folder} exists and holds no report: choose another folder with -o, or empty it first.")
