"""Scores against slow loops written from the formulas."""

import cmath
import math

import pytest
import torch

from tests.models.small import CASES, IDS, N_ENTITIES, N_RELATIONS, OPTIONS, TRIPLES, all_scores, make

EPS = 1e-5  # of batch norms


def inner(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def oriented(model, relation):
    """Return a row of the relation table, and whether it is to be inverted."""
    shared = model.shared_inverse and relation >= N_RELATIONS
    return model.relation[relation - N_RELATIONS if shared else relation].tolist(), shared


def transe(model, anchor, relation, candidate):
    row, inverted = oriented(model, relation)
    sign = -1 if inverted else 1
    h, t = model.entity[anchor].tolist(), model.entity[candidate].tolist()
    return model.gamma - sum(abs(h[k] + sign * row[k] - t[k]) for k in range(len(h)))


def complex_numbers(row):
    half = len(row) // 2
    return [complex(row[k], row[half + k]) for k in range(half)]


def rotate(model, anchor, relation, candidate):
    row, inverted = oriented(model, relation)
    h, t = (complex_numbers(model.entity[e].tolist()) for e in (anchor, candidate))
    turns = [cmath.exp(1j * (-1 if inverted else 1) * theta * math.pi / 0.01) for theta in row]
    return model.gamma - sum(abs(h[k] * turns[k] - t[k]) for k in range(len(h)))


def complex_(model, anchor, relation, candidate):
    row, inverted = oriented(model, relation)
    h, t, r = (complex_numbers(x) for x in (model.entity[anchor].tolist(), model.entity[candidate].tolist(), row))
    r = [x.conjugate() for x in r] if inverted else r
    return sum((h[k] * r[k] * t[k].conjugate()).real for k in range(len(h)))


def autoblm(model, anchor, relation, candidate):
    row, inverted = oriented(model, relation)
    head, tail = (candidate, anchor) if inverted else (anchor, candidate)
    q = len(row) // 4
    h, r, t = (
        [x[i : i + q] for i in range(0, 4 * q, q)]
        for x in (model.entity[head].tolist(), row, model.entity[tail].tolist())
    )
    meet = ((0, 0), (1, 1), (2, 3), (3, 2))  # quarters of head and relation, and of the tail
    return sum(h[i][k] * r[i][k] * t[j][k] for i, j in meet for k in range(q))


def triplere(model, anchor, relation, candidate):
    row, inverted = oriented(model, relation)
    head, tail = (candidate, anchor) if inverted else (anchor, candidate)
    d, u = len(row) // 3, model.offset
    r_head, r_tail, r_middle = row[:d], row[d : 2 * d], row[2 * d :]
    h, t = ([x / math.sqrt(inner(e, e)) for x in e] for e in (model.entity[head].tolist(), model.entity[tail].tolist()))
    parts = (h[k] * (r_head[k] + u) - t[k] * (r_tail[k] + u) + u * r_middle[k] for k in range(d))
    return model.gamma - sum(map(abs, parts))


def layer_norm(x, norm):
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((a - mean) ** 2 for a in x) / len(x) + EPS)
    return [(a - mean) / deviation * w + b for a, w, b in zip(x, norm.weight.tolist(), norm.bias.tolist(), strict=True)]


def linear(layer, x):
    return [inner(w, x) + b for w, b in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)]


def block(layer, tokens, hidden):
    """Read tokens, each a list of numbers, of which those ``hidden`` get no attention."""
    d, size = len(tokens[0]), len(tokens[0]) // layer.heads
    parts = [linear(layer.attention, layer_norm(x, layer.norms[0])) for x in tokens]
    read = []
    for i, x in enumerate(tokens):
        mixed = []
        for start in range(0, d, size):
            query = parts[i][start : start + size]
            logits = [inner(query, part[d + start : d + start + size]) / math.sqrt(size) for part in parts]
            powers = [0.0 if j in hidden else math.exp(logit) for j, logit in enumerate(logits)]
            for k in range(2 * d + start, 2 * d + start + size):
                mixed.append(sum(p * part[k] for p, part in zip(powers, parts, strict=True)) / sum(powers))
        x = [a + b for a, b in zip(x, linear(layer.projection, mixed), strict=True)]
        inside = [
            a * (1 + math.erf(a / math.sqrt(2))) / 2 for a in linear(layer.hidden[0], layer_norm(x, layer.norms[1]))
        ]
        read.append([a + b for a, b in zip(x, linear(layer.hidden[2], inside), strict=True)])
    return [sum(column) / len(read) for column in zip(*read, strict=True)]


def by_degree(entities):
    ends = [e for h, _, t in TRIPLES.tolist() for e in (h, t)]
    return sorted(entities, key=lambda e: (-ends.count(e), e))


def anchors_by_distance(entity, n_anchors):
    """Return the numbers of the anchors that can be reached, the nearest first, ties in order."""
    distance, ring = {}, {entity}
    while ring:
        distance |= dict.fromkeys(ring, len(set(distance.values())))
        steps = {(a, b) for h, _, t in TRIPLES.tolist() for a, b in ((h, t), (t, h))}
        ring = {b for a, b in steps if a in ring} - distance.keys()
    anchors = by_degree(range(N_ENTITIES))[:n_anchors]
    reached = [number for number, anchor in enumerate(anchors) if anchor in distance]
    return sorted(reached, key=lambda number: (distance[anchors[number]], number))


def padded(found, n):
    return [*found[:n], *[None] * (n - len(found))]


def row_or_zeros(table, i):
    return [0.0] * table.shape[1] if i is None else table[i].tolist()


def stargraph_entity(model, entity, n_neighbours, n_nearest):
    near = by_degree({b for h, _, t in TRIPLES.tolist() for a, b in ((h, t), (t, h)) if a == entity != b})
    tokens = [
        *((linear(model.linear, row_or_zeros(model.entity, e)), 0 if i == 0 else 1)
          for i, e in enumerate([entity, *padded(near, n_neighbours)])),
        *((row_or_zeros(model.anchor, a), 2)
          for a in padded(anchors_by_distance(entity, len(model.anchor)), n_nearest)),
    ]  # fmt: skip
    kinds = model.kind.tolist()
    return block(model.block, [[a + b for a, b in zip(x, kinds[kind], strict=True)] for x, kind in tokens], ())


def interht_entity(model, entity, n_out, n_in, n_nearest):
    facts = [(h, t) for h, _, t in TRIPLES.tolist() if h != t]
    after, before = by_degree({t for h, t in facts if h == entity}), by_degree({h for h, t in facts if t == entity})
    sources = [
        (linear(model.linear, model.entity[entity].tolist()), 0, False),
        *((linear(model.neighbour_linear, row_or_zeros(model.neighbour, e)), kind, e is None)
          for kind, found in ((1, padded(after, n_out)), (2, padded(before, n_in))) for e in found),
        *((row_or_zeros(model.anchor, a), 3, a is None)
          for a in padded(anchors_by_distance(entity, len(model.anchor)), n_nearest)),
    ]  # fmt: skip
    kinds = model.kind.tolist()
    tokens = [[a + b for a, b in zip(x, kinds[kind], strict=True)] for x, kind, _ in sources]
    return block(model.block, tokens, [i for i, (_, _, missing) in enumerate(sources) if missing])


def token_score(model, anchor, relation, candidate, encoded, interaction):
    row, inverted = oriented(model, relation)
    head, tail = (candidate, anchor) if inverted else (anchor, candidate)
    d, u = len(row) // 3, model.relation_scale
    h, t = ([x / math.sqrt(inner(e, e)) for x in e] for e in (encoded(head), encoded(tail)))
    return model.gamma - sum(
        abs(interaction * h[k] * t[k] + h[k] * (u * row[k] + 1) - t[k] * (u * row[d + k] + 1) + row[2 * d + k])
        for k in range(d)
    )


def stargraph(model, anchor, relation, candidate):
    sizes = (model.kinds == 1).sum().item(), (model.kinds == 2).sum().item()
    return token_score(model, anchor, relation, candidate, lambda e: stargraph_entity(model, e, *sizes), 0.0)


def interht(model, anchor, relation, candidate):
    sizes = [(model.kinds == kind).sum().item() for kind in (1, 2, 3)]
    encoded = lambda e: interht_entity(model, e, *sizes)  # noqa: E731
    return token_score(model, anchor, relation, candidate, encoded, model.relation_scale)


def house(model, anchor, relation, candidate):
    """Score the triple as a query for tails, whichever was asked: the two agree."""
    r = relation % N_RELATIONS
    head, tail = (anchor, candidate) if relation < N_RELATIONS else (candidate, anchor)
    (c, k), m = model.blocks, model.projections
    n_vectors = model.relation.shape[1]
    total = 0.0
    for i in range(c):
        vectors = []
        for v in model.relation[r, :, i].tolist():
            length = math.sqrt(inner(v, v))
            vectors.append([x / length for x in v])

        def turned(x, v, factor):
            along = inner(x, v)
            return [a - factor * along * b for a, b in zip(x, v, strict=True)]

        def strength(side, j, i=i):
            a, b = model.strength[r, side, j, 0].item(), model.block_strength[r, side, j, i].item()
            return min(model.limit, a * abs(b))

        h = model.entity[head, i * k : (i + 1) * k].tolist()
        t = model.entity[tail, i * k : (i + 1) * k].tolist()
        for j in range(m):
            h = turned(h, vectors[n_vectors - 1 - j], strength(0, j))
            t = turned(t, vectors[j], strength(1, j))
        for j in range(n_vectors - m - 1, m - 1, -1):
            h = turned(h, vectors[j], 2.0)
        total += math.sqrt(sum((a - b) ** 2 for a, b in zip(h, t, strict=True)))
    return model.gamma - total


def normalised(value, norm, channel):
    """Apply a batch norm at evaluation to one number."""
    centred = (value - norm.running_mean[channel].item()) / math.sqrt(norm.running_var[channel].item() + EPS)
    return centred * norm.weight[channel].item() + norm.bias[channel].item()


def network(image, image_norm, convolution, feature_norm, linear, hidden_norm):
    """Run an image (rows of numbers) through convolution, linear layer and their batch norms."""
    if image_norm is not None:
        image = [[normalised(x, image_norm, 0) for x in row] for row in image]
    flat = []
    for channel, ((kernel,),) in enumerate(zip(convolution.weight.tolist(), strict=True)):
        side = len(kernel)
        for i in range(len(image) - side + 1):
            for j in range(len(image[0]) - side + 1):
                value = sum(kernel[a][b] * image[i + a][j + b] for a in range(side) for b in range(side))
                flat.append(max(0.0, normalised(value, feature_norm, channel)))
    hidden = [inner(w, flat) + b for w, b in zip(linear.weight.tolist(), linear.bias.tolist(), strict=True)]
    return [max(0.0, normalised(x, hidden_norm, k)) for k, x in enumerate(hidden)]


def rows_of(values, width):
    return [values[i : i + width] for i in range(0, len(values), width)]


def conve(model, anchor, relation, candidate):
    row, _ = oriented(model, relation)
    image = rows_of(model.entity[anchor].tolist() + row, model.image_shape[2])
    original = model.bias is not None
    vector = network(
        image, model.image[0] if original else None, model.convolution, model.features[0], model.linear, model.hidden[1]
    )
    return inner(vector, model.entity[candidate].tolist()) + (model.bias[candidate].item() if original else 0.0)


def composed(x, z, composition):
    p = len(x)
    if composition == "sub":
        return [x[k] - z[k] for k in range(p)]
    if composition == "mult":
        return [x[k] * z[k] for k in range(p)]
    return [sum(x[i] * z[(k + i) % p] for i in range(p)) for k in range(p)]


def times(x, matrix):
    return [inner(x, column) for column in zip(*matrix, strict=True)]


def graph_layer(layer, x, z):
    """Encode entities and relations edge by edge, every message mapped on its own."""
    heads = [h for h, _, _ in TRIPLES.tolist()]
    tails = [t for _, _, t in TRIPLES.tolist()]
    forward, inverse, loop = layer.weight.tolist()
    sums = [times(composed(row, layer.loop_relation[0].tolist(), layer.composition), loop) for row in x]
    for h, r, t in TRIPLES.tolist():
        for receiver, sender, relation, receivers, matrix in (
            (h, t, r, heads, forward),
            (t, h, r + N_RELATIONS, tails, inverse),
        ):
            degrees = receivers.count(receiver), receivers.count(sender)
            weight = 0.0 if 0 in degrees else 1 / math.sqrt(degrees[0] * degrees[1])
            message = times(composed(x[sender], z[relation], layer.composition), matrix)
            sums[receiver] = [a + weight * b for a, b in zip(sums[receiver], message, strict=True)]
    new = [[math.tanh(normalised(value / 3, layer.norm, k)) for k, value in enumerate(row)] for row in sums]
    return new, [times(row, layer.relation_weight.tolist()) for row in z]


def encoded_graph(model):
    x, z = model.entity.tolist(), model.relation.tolist()
    for layer in model.layers:
        x, z = graph_layer(layer, x, z)
    return x, z


def compgcn(model, anchor, relation, candidate):
    x, z = encoded_graph(model)
    interleaved = [value for pair in zip(x[anchor], z[relation], strict=True) for value in pair]
    image = rows_of(interleaved, model.image_shape[2])
    vector = network(image, model.image_norm, model.convolution, model.features[0], model.linear, model.hidden[1])
    return inner(vector, x[candidate]) + model.bias[candidate].item()


def edge_vector(layer, query, relation):
    if layer.edge is not None:
        return layer.edge[relation].tolist()
    rows = slice(relation * layer.width, (relation + 1) * layer.width)
    weight, bias = layer.edge_of_query.weight[rows].tolist(), layer.edge_of_query.bias[rows].tolist()
    return [inner(row, query) + b for row, b in zip(weight, bias, strict=True)]


def statistics(elements, scale):
    """Return mean, maximum, minimum and deviation, as they are, times the scale, and divided by it."""
    columns = list(zip(*elements, strict=True))
    means = [sum(c) / len(c) for c in columns]
    variances = [sum(a * a for a in c) / len(c) - m * m for c, m in zip(columns, means, strict=True)]
    found = [*means, *map(max, columns), *map(min, columns), *(math.sqrt(max(v, 1e-6)) for v in variances)]
    return [a * by for by in (1, scale, 1 / max(scale, 0.01)) for a in found]


def nbfnet(model, anchor, relation, candidate):
    triples, query = TRIPLES.tolist(), model.query[relation].tolist()
    edges = [(h, r, t) for h, r, t in triples] + [(t, r + N_RELATIONS, h) for h, r, t in triples]
    boundary = [query if entity == anchor else [0.0] * len(query) for entity in range(N_ENTITIES)]
    logarithms = [math.log(1 + sum(t == entity for _, _, t in edges)) for entity in range(N_ENTITIES)]
    states = boundary
    for layer in model.layers:
        after = []
        for entity in range(N_ENTITIES):
            vectors = [(states[h], edge_vector(layer, query, r)) for h, r, t in edges if t == entity]
            elements = [[a * b for a, b in zip(x, w, strict=True)] for x, w in vectors] + [boundary[entity]]
            if len(layer.linear.weight[0]) == 2 * len(query):
                collected = [sum(column) for column in zip(*elements, strict=True)]
            else:
                collected = statistics(elements, logarithms[entity] / (sum(logarithms) / N_ENTITIES))
            mixed = layer_norm(linear(layer.linear, states[entity] + collected), layer.norm)
            after.append([max(a, 0.0) + b for a, b in zip(mixed, states[entity], strict=True)])
        states = after
    hidden = [max(a, 0.0) for a in linear(model.hidden, states[candidate] + query)]
    return linear(model.last, hidden)[0]


FORMULAS = {
    "transe": transe, "rotate": rotate, "house": house, "complex": complex_, "conve": conve, "compgcn": compgcn,
    "autoblm": autoblm, "complex-rp": complex_, "triplere": triplere,
    "stargraph": stargraph, "interht": interht, "nbfnet": nbfnet,
}  # fmt: skip


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_scores_equal_the_formula(name, options):
    model = make(name, options)
    scores = all_scores(model)
    picks = torch.randint(2**20, (30, 3), generator=torch.Generator().manual_seed(3)).tolist()
    for a, b, c in picks:
        query = a % N_ENTITIES, b % (2 * N_RELATIONS), c % N_ENTITIES
        assert scores[query].item() == pytest.approx(FORMULAS[name](model, *query), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("options", OPTIONS["compgcn"])
def test_the_graph_is_encoded_as_edge_by_edge(options):
    model = make("compgcn", options)
    for found, expected in zip(model.graph(), encoded_graph(model), strict=True):
        torch.testing.assert_close(found, torch.tensor(expected))


def test_the_relation_matrices_of_house_equal_its_steps():
    """Reflections keep lengths; a projection of strength 2 is a reflection."""
    model = make("house", {"dim": 4, "block": 4, "projections": 1, "limit": 2.0})
    with torch.no_grad():
        model.strength.fill_(2.0)
        model.block_strength.fill_(1.0)
    encoded = model.encode(torch.arange(9), torch.arange(9) % 6)
    torch.testing.assert_close(encoded.vector.norm(dim=1), model.entity.norm(dim=1))
    torch.testing.assert_close(encoded.matrices @ encoded.matrices.mT, torch.eye(4).expand_as(encoded.matrices))
