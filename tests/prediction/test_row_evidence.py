"""Evidence on batches of queries, compared with the evidence on one query at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

from relens.prediction.evidence import Candidates, evidence_of
from relens.prediction.row_evidence import row_evidence
from tests.prediction.test_row_ranks import batches, case_of, ranked, standing


@given(batches(), st.booleans())
def test_the_evidence_of_a_batch_is_that_of_each_query(batch, with_anchor):
    scores, known, anchors, weights, *_ = batch
    n_queries, n_entities = known.shape
    scales = np.array([0.5, 2.0, 1.0])[: len(weights)]
    everyone = np.tile(np.arange(n_entities), (n_queries, 1))
    compared = [np.flatnonzero(row)[::2] for row in known]
    found = row_evidence(ranked(batch), everyone, compared, scales, with_anchor=with_anchor)
    for row in range(n_queries):
        anchor = None if with_anchor else int(anchors[row])
        asked = Candidates.of(standing(case_of(batch, row)), anchor, compared[row])
        entities = np.flatnonzero(~known[row])
        expected = evidence_of(asked, entities, scales)
        np.testing.assert_array_equal(found.places[row, entities], expected.places)
        size = max(1.0, float(np.abs(scores).max()))
        np.testing.assert_allclose(found.features[row, entities], expected.features, atol=1e-12 * size)
