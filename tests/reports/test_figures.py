import warnings

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'relens[report]'")

from relens.data.grouping import Grouping
from relens.ensemble.weights import EnsembleWeights
from relens.reports.figures import draw_weights
from relens.reports.relations import RelationRow
from relens.reports.style import figure_style


def test_long_relation_names_leave_room_for_the_weights(tmp_path):
    """Names that differ in the middle cannot be cut short; on a phone's width they took all of it once."""
    relations = tuple(f"/a/domain/of_the_graph_{n}./with_names/that_begin_and_end_alike" for n in range(12))
    models = ("transe", "rotate", "house", "complex", "conve", "compgcn")
    table = np.random.default_rng(0).integers(1, 50, (24, 6))
    own, support = np.ones(24, dtype=bool), np.full(24, 9)
    weights = EnsembleWeights(
        models, relations, Grouping.from_spec("relation-direction", relations), table, own, table[0], support
    )
    mrr, shares = np.full(6, 0.5), weights.normalised()
    rows = [
        RelationRow(relation, direction, "", 9, 9, mrr, 0.5, shares[2 * at + head], True, 0.0)
        for at, relation in enumerate(relations)
        for head, direction in enumerate(("tail", "head"))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib says so when there is no room left for the axes
        with figure_style():
            drawing = draw_weights(("dsc", weights), None, rows, tmp_path)
    for svg in (drawing.svg, drawing.narrow):
        assert svg.count("tail queries") == svg.count("head queries") == 1
