"""Tables for people, papers and programs. Values stay exact until a table is rendered."""

from relens.tables.results import (
    breakdown_table,
    comparison_table,
    evaluation_table,
    run_comparison_table,
    spread_table,
)
from relens.tables.table import Column, Row, Table

__all__ = [
    "Column",
    "Row",
    "Table",
    "breakdown_table",
    "comparison_table",
    "evaluation_table",
    "run_comparison_table",
    "spread_table",
]
