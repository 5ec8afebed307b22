"""What every model of the table promises."""

import pytest
import torch
from torch.nn.functional import dropout

from relens.models import MODELS, build
from relens.models import distance as distances
from tests.models.small import CASES, IDS, N_ENTITIES, N_RELATIONS, OPTIONS, all_queries, all_scores, make

INVERTED = ("transe", "rotate", "complex", "house")
SHARED = [(name, options) for name, options in CASES if name in INVERTED and options.get("shared_inverse", True)]
every_case = pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)


def test_every_model_is_tested():
    assert OPTIONS.keys() == MODELS.keys()


@every_case
@pytest.mark.parametrize("n_chunks", [1, 2, 6, 54])
def test_candidates_get_the_scores_they_get_among_all(name, options, n_chunks):
    model, (anchor, relation) = make(name, options), all_queries()
    candidates = torch.randint(N_ENTITIES, (n_chunks, 5), generator=torch.Generator().manual_seed(1))
    queries = model.encode(anchor, relation)
    expected = model.score(queries).gather(1, candidates.repeat_interleave(len(anchor) // n_chunks, dim=0))
    torch.testing.assert_close(model.score(queries, candidates), expected)


@every_case
def test_a_query_does_not_depend_on_its_batch(name, options):
    model, (anchor, relation) = make(name, options), all_queries()
    expected = all_scores(model).flatten(0, 1)
    for rows in ([7], [3, 3, 50], list(range(54))[::-1]):
        torch.testing.assert_close(model.score(model.encode(anchor[rows], relation[rows])), expected[rows])


@pytest.mark.parametrize(("name", "options"), SHARED)
def test_asking_for_heads_scores_the_same_triples(name, options):
    scores = all_scores(make(name, options))
    tails, heads = scores[:, :N_RELATIONS], scores[:, N_RELATIONS:]
    torch.testing.assert_close(tails, heads.transpose(0, 2))
    assert tails.std() > 1e-3


@pytest.mark.parametrize("name", ["transe", "rotate", "complex", "conve"])
def test_inverse_relations_may_have_rows_of_their_own(name):
    options = OPTIONS[name][0] | {"shared_inverse": False}
    model = make(name, options)
    assert len(model.relation) == 2 * N_RELATIONS
    before = all_scores(model)
    with torch.no_grad():
        model.relation[N_RELATIONS:] += 0.003
    after = all_scores(model)
    torch.testing.assert_close(before[:, :N_RELATIONS], after[:, :N_RELATIONS])
    assert (before[:, N_RELATIONS:] - after[:, N_RELATIONS:]).abs().max() > 1e-6


@every_case
@pytest.mark.parametrize("candidates", [None, torch.arange(9).repeat(54, 1)], ids=["all", "given"])
def test_gradients_reach_every_parameter(name, options, candidates):
    if name == "house":
        options = options | {"limit": 10.0}  # clipped strengths have no gradient
    model = make(name, options)
    weights = torch.randn(54, 9, generator=torch.Generator().manual_seed(2))
    (model.score(model.encode(*all_queries()), candidates) * weights).sum().backward()
    for key, parameter in model.named_parameters():
        if parameter.numel() > 0:  # strengths of no projections are empty
            assert parameter.grad is not None, key
            assert torch.isfinite(parameter.grad).all(), key
            assert parameter.grad.abs().max() > 0, key


@every_case
def test_evaluation_is_deterministic(name, options):
    first, second = make(name, options), make(name, options)
    assert torch.equal(all_scores(first), all_scores(second))
    assert torch.equal(all_scores(first), all_scores(first))


@pytest.mark.parametrize(("name", "options"), [("conve", OPTIONS["conve"][2]), ("compgcn", OPTIONS["compgcn"][0])])
def test_layers_drop_out_in_training_only(name, options):
    model = make(name, options).train()
    assert not torch.equal(all_scores(model), all_scores(model))


@pytest.mark.parametrize("name", ["transe", "rotate", "house", "complex", "conve"])
def test_embedding_dropout_is_what_the_caller_passes(name):
    model, (anchor, relation) = make(name, OPTIONS[name][0]), all_queries()
    dropped = []

    def drop(rows):
        dropped.append(dropout(rows, 0.5))
        return dropped[-1]

    queries = model.encode(anchor, relation, drop)
    assert len(queries.rows) == len(dropped)
    assert all(torch.equal(row, expected) for row, expected in zip(queries.rows, dropped, strict=True))
    assert not torch.equal(queries.vector, model.encode(anchor, relation).vector)
    looked_up = model.score(queries, torch.zeros(1, 2, dtype=torch.long), drop)
    assert looked_up.shape == (54, 2)
    assert len(dropped) == len(queries.rows) + 1  # the candidates


@pytest.mark.parametrize("name", ["transe", "rotate", "house"])
@pytest.mark.parametrize("candidates", [None, torch.arange(9).repeat(2, 1), torch.arange(9).repeat(54, 1)])
def test_distances_taken_in_pieces_are_the_same(name, candidates, monkeypatch):
    model = make(name, OPTIONS[name][0])
    weights = torch.randn(54, 9, generator=torch.Generator().manual_seed(2))
    results = []
    for piece in (10**9, 54 * 6 * 2, 1):
        monkeypatch.setitem(distances.PIECE, "cpu", piece)
        model.zero_grad()
        scores = model.score(model.encode(*all_queries()), candidates)
        (scores * weights).sum().backward()
        results.append([scores.detach(), *(parameter.grad.clone() for parameter in model.parameters())])
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


@pytest.mark.parametrize("name", ["transe", "rotate", "house"])
def test_a_distance_of_zero_has_a_finite_gradient(name):
    model = make(name, OPTIONS[name][0])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    scores = model.score(model.encode(*all_queries()))
    torch.testing.assert_close(scores, torch.full_like(scores, model.gamma))
    scores.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


WN18RR, FB15K_237 = (40_943, 11), (14_541, 237)


@pytest.mark.parametrize(
    ("name", "sizes", "options", "expected"),
    [
        ("transe", WN18RR, {"dim": 1000}, 40_954_000),
        ("rotate", WN18RR, {"dim": 1000}, 40_948_500),
        ("rotate", FB15K_237, {"dim": 2000}, 29_319_000),
        ("complex", WN18RR, {"dim": 2000, "shared_inverse": False}, 81_930_000),
        ("complex", FB15K_237, {"dim": 2000}, 29_556_000),
        # Tables and linear layer, then the convolution and two batch norms.
        ("conve", FB15K_237, {"dim": 500}, 7_389_000 + 13_984_500 + 288 + 64 + 1000),
        # Entities, then per relation the vectors, two scalars and two numbers per block.
        ("house", WN18RR, {"dim": 800, "block": 8}, 32_754_400 + 11 * (10 * 800 + 2 + 2 * 100)),
        ("house", FB15K_237, {"dim": 600, "block": 20, "projections": 6}, 8_724_600 + 237 * (32 * 600 + 12 + 12 * 30)),
        # Tables, two graph layers, bias, batch norms, convolution, linear layer.
        (
            "compgcn",
            FB15K_237,
            {},
            1_454_100 + 47_400 + (100 + 4 * 20_000 + 400) + (200 + 4 * 40_000 + 400)
            + 14_541 + 2 + 400 + 400 + 200 * 49 + (39_200 * 200 + 200),
        ),
    ],
)  # fmt: skip
def test_parameter_counts(name, sizes, options, expected):
    with torch.device("meta"):  # counted, not allocated
        model = build(name, *sizes, options, torch.zeros(1, 3, dtype=torch.long, device="cpu"))
    assert model.n_parameters == expected
