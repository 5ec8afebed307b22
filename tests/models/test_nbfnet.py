"""NBFNet: removal of edges, the objective, and what it learns, with and without a leak."""

import math

import pytest
import torch

from relens.errors import InputError
from relens.models import MODELS
from relens.models.nbfnet import NBFNet, Reached, Targets, choose_targets, cross_entropy
from tests.models.test_propagation import KINDS, N_ENTITIES, N_RELATIONS, odd_triples


@pytest.fixture
def one_thread():
    """Compute in one thread: small products take longer in several that share their cores with other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def model_of(triples, n_entities=N_ENTITIES, n_relations=N_RELATIONS, **options):
    model = NBFNet(n_entities, n_relations, triples, **{"width": 16, "layers": 2, **options})
    model.initialise(None, torch.Generator().manual_seed(1))
    return model


@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
def test_removing_edges_equals_building_the_graph_without_them(aggregate, edge_vectors):
    triples = odd_triples()
    options = {"aggregate": aggregate, "edge_vectors": edge_vectors}
    model, smaller = model_of(triples, **options), model_of(triples[5:], **options)
    removed = (model.graph.triple < 5).to(torch.uint8)
    queries = torch.tensor([0, 5, 8]), torch.tensor([0, 4, 2])
    torch.testing.assert_close(scores_of(model, *queries, removed), scores_of(smaller, *queries))


def test_reading_another_graph_equals_building_the_model_on_it():
    triples = odd_triples()
    model, built = model_of(triples[:9], n_entities=7), model_of(triples)
    model.read(triples, N_ENTITIES)
    queries = torch.tensor([0, 5, 8]), torch.tensor([0, 4, 2])
    assert torch.equal(scores_of(model, *queries), scores_of(built, *queries))
    assert (model.n_entities, model.bytes_per_query) == (N_ENTITIES, built.bytes_per_query)


def test_renaming_entities_renames_scores():
    triples, names = odd_triples(), torch.randperm(N_ENTITIES)
    renamed = torch.stack([names[triples[:, 0]], triples[:, 1], names[triples[:, 2]]], dim=1)
    anchor, relation = torch.tensor([0, 5, 8]), torch.tensor([0, 4, 2])
    scores = scores_of(model_of(triples), anchor, relation)
    other = scores_of(model_of(renamed), names[anchor], relation)
    assert scores.shape == (3, N_ENTITIES)
    torch.testing.assert_close(other[:, names], scores)


def scores_of(model, anchor, relation, removed=None):
    return model.score(model.reach(anchor, relation, removed))


def queries_of(graph, edges):
    """Return anchors, relations and answers of training queries that are given as edges of the graph."""
    return tuple(ids[edges].long() for ids in (graph.source, graph.relation, graph.destination))


@pytest.mark.parametrize("mode", ["triple", "pair"])
def test_removed_edges_are_those_of_the_targets(mode):
    triples = torch.tensor([(0, 0, 1), (0, 0, 2), (1, 1, 0), (0, 2, 1), (3, 0, 1), (0, 1, 2)])
    model = model_of(triples)
    graph = model.graph
    (edge,) = ((graph.source == 0) & (graph.relation == 0) & (graph.destination == 1)).nonzero()
    for share, n_targets in ((0.0, 1), (1.0, 2)):
        batch = choose_targets(queries_of(graph, edge), graph, share, mode)
        assert batch.target.sum() == n_targets
        assert batch.other.sum() == 2 - n_targets
        found = {
            (h, r, t)
            for h, r, t, gone in zip(graph.source, graph.relation, graph.destination, batch.removed, strict=True)
            if gone
            for h, r, t in [(int(h), int(r), int(t))]
        }
        told = [(0, 0, 1), (0, 0, 2)][:n_targets] if mode == "triple" else [
            triple for triple in map(tuple, triples.tolist()) if set(triple[::2]) in [{0, 1}, {0, 2}][:n_targets]
        ]  # fmt: skip
        assert found == {*told, *((t, r + N_RELATIONS, h) for h, r, t in told)}


def test_the_loss_is_the_mean_over_targets_among_what_is_not_known():
    scores = torch.randn(2, 5)
    answer = torch.tensor([[0, 3, 4], [2, 1, 0]])
    target = torch.tensor([[True, True, False], [True, False, False]])
    other = torch.tensor([[False, False, True], [False, True, False]])  # the last place of the second row is padding
    first = torch.log_softmax(scores[0, [0, 1, 2, 3]], 0)[[0, 3]].mean()
    second = torch.log_softmax(scores[1, [0, 2, 3, 4]], 0)[1]
    found = cross_entropy(scores, Targets(answer, target, other, torch.zeros(0)))
    torch.testing.assert_close(found, -(first + second) / 2)


def fit(model, mode, steps, share=0.3, halves=(True, True), only=None):
    """Train on all queries (of one relation) at once; ``halves`` says which of a target's two edges are removed."""
    graph = model.graph
    chosen = torch.ones_like(graph.source, dtype=torch.bool) if only is None else graph.relation == only
    edges = chosen.nonzero().squeeze(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.0)
    generator = torch.Generator().manual_seed(2)
    forward = graph.relation < graph.n_relations
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 0.01 * (1 + math.cos(math.pi * step / steps))
        drawn = edges[torch.randint(len(edges), (16,), generator=generator)]
        queries = queries_of(graph, drawn)
        batch = choose_targets(queries, graph, share, mode)
        removed = batch.removed & torch.where(forward, *halves)
        loss = cross_entropy(scores_of(model, *queries[:2], removed), batch)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return float(loss.detach())


def mean_reciprocal_rank(model, triples, known):
    """Return the filtered MRR of tail queries; ``known`` holds triples whose tails do not compete."""
    with torch.no_grad():
        scores = scores_of(model, triples[:, 0], triples[:, 1]).cpu()
    total = 0.0
    for row, (h, r, t) in zip(scores, triples.tolist(), strict=True):
        rivals = torch.ones(len(row), dtype=torch.bool)
        rivals[[z for x, y, z in known.tolist() if (x, y) == (h, r)]] = False
        total += 1 / (1 + float((row[rivals] > row[t]).sum()) + float((row[rivals] == row[t]).sum()) / 2)
    return total / len(triples)


def test_a_rule_of_two_steps_is_learnt(one_thread):
    torch.set_default_dtype(torch.float32)
    n, generator = 60, torch.Generator().manual_seed(3)
    p, q = torch.randperm(n, generator=generator), torch.randperm(n, generator=generator)
    x = torch.arange(n)
    triples = [torch.stack([a, torch.full_like(a, r), b], 1) for r, a, b in ((0, x, p), (1, p, q[p]), (2, x, q[p]))]
    shown, hidden = triples[2][: n // 2], triples[2][n // 2 :]
    train = torch.cat([*triples[:2], shown])
    model = model_of(train, n, 3, layers=3)
    fit(model, "triple", 60)
    assert mean_reciprocal_rank(model, hidden, torch.cat([train, hidden])) > 0.95


BOTH, FORWARD_ONLY, INVERSE_ONLY = (True, True), (True, False), (False, True)


@pytest.mark.parametrize(
    ("relation", "halves", "told"),
    [(0, BOTH, False), (0, INVERSE_ONLY, True), (2, BOTH, False), (2, FORWARD_ONLY, True)],
    ids=["tails", "tails, forward edge left", "heads", "heads, inverse edge left"],
)
def test_edges_do_not_tell_the_answer(relation, halves, told, one_thread):
    """Tails are random: with both edges removed there is nothing to learn; the one that is left gives them away."""
    torch.set_default_dtype(torch.float32)
    n, generator = 40, torch.Generator().manual_seed(4)
    tails, ends = torch.randperm(n, generator=generator), torch.randint(n, (2, 60), generator=generator)
    asked = torch.stack([torch.arange(n), torch.zeros(n, dtype=torch.long), tails], dim=1)
    noise = torch.stack([ends[0], torch.ones(60, dtype=torch.long), ends[1]], dim=1)
    model = model_of(torch.cat([asked, noise]), n, 2)
    loss = fit(model, "triple", 40, halves=halves, only=relation)
    assert loss < 1 if told else loss > 2


class Examples:
    """All training queries of a graph: the tails of its triples, then their heads."""

    def __init__(self, triples):
        head, relation, tail = triples.T
        self.anchor, self.answer = torch.cat([head, tail]), torch.cat([tail, head])
        self.relation = torch.cat([relation, relation + N_RELATIONS])


@pytest.mark.parametrize("removal", ["triple", "pair"])
@pytest.mark.parametrize("all_answers", [False, True])
def test_examples_are_encoded_without_their_answers(removal, all_answers):
    triples = odd_triples()
    model, examples = model_of(triples, removal=removal), Examples(triples)
    for number in (0, 3, 12, len(triples) + 3, len(triples) + 12):
        told = [number % len(triples)]
        if all_answers:
            same = (examples.anchor == examples.anchor[number]) & (examples.relation == examples.relation[number])
            told = [place % len(triples) for place in same.nonzero().squeeze(1).tolist()]
        ends = [set(triples[place, ::2].tolist()) for place in told]
        rows = [tuple(triples[place].tolist()) for place in told]
        by_triple = [row for row in triples.tolist() if tuple(row) not in rows]
        by_pair = [row for row in triples.tolist() if {*row[::2]} not in ends]
        kept = by_triple if removal == "triple" else by_pair
        smaller = model_of(torch.tensor(kept), removal=removal)
        found = model.encode_examples(examples, torch.tensor([number]), all_answers=all_answers)
        query = examples.anchor[[number]], examples.relation[[number]]
        torch.testing.assert_close(model.score(found), smaller.score(smaller.encode(*query)))


def test_a_share_of_all_edges_is_hidden_in_both_directions():
    graph = model_of(odd_triples()).graph
    one = queries_of(graph, torch.tensor([0]))
    shares = []
    for _ in range(200):
        removed = choose_targets(one, graph, 0.0, "triple", 0.4).removed
        assert removed[0]
        for triple in range(graph.n_triples):
            assert removed[graph.triple == triple].unique().numel() == 1
        shares.append(removed[graph.triple != graph.triple[0]].double().mean())
    assert torch.stack(shares).mean() == pytest.approx(0.4, abs=0.03)


class Settings:
    loss, dropout, label_smoothing, row_weights = "1vsall", 0.0, 0.0, False


def test_other_losses_are_those_of_the_settings():
    model, settings = model_of(odd_triples()), Settings()
    settings.loss = "bce_adv"
    assert model.training_objective(Examples(odd_triples()), settings) is None


@pytest.mark.parametrize(("name", "value"), [("label_smoothing", 0.1), ("row_weights", True)])
def test_settings_that_the_objective_does_not_know_are_refused(name, value):
    settings = Settings()
    setattr(settings, name, value)
    with pytest.raises(InputError, match=f"`{name}={value}`, but NBFNet's `loss=1vsall` has no such term"):
        model_of(odd_triples()).training_objective(Examples(odd_triples()), settings)


def test_dropout_acts_on_edge_vectors_and_on_the_hidden_layer():
    model, seen = model_of(odd_triples()), []

    def drop(rows):
        seen.append(rows.shape)
        return rows

    queries = torch.tensor([0, 5]), torch.tensor([0, 4])
    torch.testing.assert_close(model.score(model.encode(*queries, drop), None, drop), scores_of(model, *queries))
    assert seen == [(2 * N_RELATIONS, 2, 16)] * 2 + [(N_ENTITIES, 2, 32)]


@pytest.mark.parametrize(("aggregate", "edge_vectors"), KINDS)
def test_anchors_without_edges_and_relations_without_triples_are_scored(aggregate, edge_vectors):
    triples = odd_triples()
    model = model_of(triples[triples[:, 1] != 1], aggregate=aggregate, edge_vectors=edge_vectors)
    scores = scores_of(model, torch.tensor([8, 8, 0]), torch.tensor([0, 1, 1 + N_RELATIONS]))
    assert torch.isfinite(scores).all()
    scores.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    # Nothing reaches 7, and nothing leaves 8, which are alike to every other anchor.
    told = scores_of(model, torch.tensor([0]), torch.tensor([0]))[0]
    torch.testing.assert_close(told[7], told[8])
    assert (told[7] - told[0]).abs() > 1e-4


def test_a_graph_without_triples_is_scored():
    scores = scores_of(model_of(torch.empty(0, 3, dtype=torch.long)), torch.tensor([0, 1]), torch.tensor([0, 4]))
    assert torch.isfinite(scores).all()


def test_scores_are_float32_where_states_are_bfloat16():
    """States that bfloat16 tells apart by one step have scores that differ, though they are large."""
    torch.set_default_dtype(torch.float32)
    model = model_of(odd_triples())
    with torch.no_grad():
        model.hidden.weight.fill_(1.0)
        model.last.weight.fill_(1.0)
    states = torch.ones(N_ENTITIES, 1, 16).bfloat16()
    states[3, 0, 0] += 2**-7
    scores = model.score(Reached(states, torch.full((1, 16), 8.0)))
    assert scores.dtype == torch.float32
    assert scores.unique().numel() == 2


def test_the_number_of_parameters():
    with torch.device("meta"):
        model = MODELS["nbfnet"].build(14_541, 237, {}, torch.zeros(1, 3, dtype=torch.long, device="cpu"))
    layer = 13 * 32 * 32 + 32 + 2 * 32 + 33 * 474 * 32
    assert model.n_parameters == 474 * 32 + 6 * layer + 65 * 64 + 65


@pytest.mark.parametrize("number", [1, 14, 25])
def test_the_objective_is_taken_without_the_edges_of_the_target(number):
    triples = odd_triples()
    model, examples = model_of(triples, target_share=0.0), Examples(triples)
    found = model.training_objective(examples, Settings())(torch.tensor([number]))
    told = tuple(triples[number % len(triples)].tolist())
    smaller = model_of(torch.tensor([row for row in triples.tolist() if tuple(row) != told]))
    anchor, relation, answer = (ids[number] for ids in (examples.anchor, examples.relation, examples.answer))
    others = examples.answer[(examples.anchor == anchor) & (examples.relation == relation)]
    scores = scores_of(smaller, anchor.view(1), relation.view(1))[0]
    scores[[other for other in others.tolist() if other != answer]] = float("-inf")
    torch.testing.assert_close(found, -torch.log_softmax(scores, 0)[answer])
