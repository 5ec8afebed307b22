"""The page of a report with the times that training and search took: unlike the report, it differs from run to run."""

from collections.abc import Sequence

from relens.ensemble.learning_curves import Curve
from relens.reports.material import Material
from relens.reports.page import fill
from relens.reports.style import Drawing
from relens.tables import Column, Row, Table


def render_times(material: Material, curves: Sequence[Curve], drawing: Drawing | None, page: str) -> str:
    """Return the page of times, or an empty text if nothing was timed.

    Args:
        material: the data of the report.
        curves: learning curves of the search; empty if they were not measured.
        drawing: the figure of the curves.
        page: the file of the report.
    """
    trainings = training_times(material)
    if not trainings and not curves:
        return ""
    return fill(
        "log.html",
        run=material.run,
        page=page,
        trainings=trainings,
        drawing=drawing,
        curves=curve_table(curves) if curves else None,
        replayed=any(curve.replayed for curve in curves),
    )


def training_times(material: Material) -> Table | None:
    """Return how long each training took, with validations and without interruptions; None if no model was trained."""
    ends = {name: training.records[-1] for name, training in material.trainings.items() if training.records}
    columns = (Column("name", align="left"), Column("steps", ",d"), Column("seconds", ",.1f"))
    rows = tuple(Row((name, end.get("step", 0), end.get("seconds", 0))) for name, end in ends.items())
    return Table("How long training took", columns, rows) if rows else None


def curve_table(curves: Sequence[Curve]) -> Table:
    """Return the end of each learning curve."""
    return Table(
        "Where each search ended",
        (
            Column("search", align="left"),
            Column("Q", "d"),
            Column("seconds", ".3g"),
            Column("validation MRR", ".4f"),
        ),
        tuple(Row((curve.label, curve.trials or None, curve.seconds[-1], curve.mrr[-1])) for curve in curves),
    )
