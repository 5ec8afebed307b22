import math

import numpy as np
import pytest
import torch

from relens.models import MODELS
from relens.training.loop import new_model
from relens.training.losses import negative_sampling, weighted_mean
from relens.training.objective import build_objective
from relens.training.presets import resolve_settings
from relens.training.queries import TrainingQueries
from relens.training.settings import LOSSES, TrainSettings
from tests.training.graphs import N_ENTITIES, N_RELATIONS, random_triples, small_settings


def objective_of(settings: TrainSettings, triples: np.ndarray, n_entities: int = N_ENTITIES):
    model = new_model(settings, triples, n_entities, N_RELATIONS)
    queries = TrainingQueries.from_triples(torch.from_numpy(triples), n_entities, N_RELATIONS)
    return model, queries, *build_objective(model, queries, settings)


def first_loss(model: str, *changes: str) -> float:
    """Return the loss of a model at the paper's initialisation and size, on a graph where no negative is known."""
    n_entities = 4_000
    triples = np.stack([np.arange(64), np.arange(64) % 3, np.arange(64) + 64], axis=1).astype(np.int32)
    settings = resolve_settings("wn18rr", model, "paper", ["dropout=0", "regulariser=none", "batch=64", *changes])
    torch.manual_seed(0)
    return float(objective_of(settings, triples, n_entities)[2](torch.arange(64)).detach())


def test_first_loss_of_complex_is_two_logarithms_of_two() -> None:
    assert first_loss("complex", "initialiser=uni") == pytest.approx(2 * math.log(2), rel=1e-3)


def test_first_loss_of_a_sum_counts_the_negatives() -> None:
    # Logits of ConvE are about 0 where its tables are tiny.
    loss = first_loss("conve", "loss=bce_sum", "initialiser=uni", "dim=100", "negatives=512")
    assert loss == pytest.approx(513 * math.log(2), rel=0.02)


def test_first_scores_of_the_distance_models() -> None:
    # Mean of |h + r - t| over 1000 coordinates of N(0, 3·0.01²), and of the modulus over 500 of two N(0, 2·0.01²).
    gammas = {"transe": (3.5012462537, 13.82), "rotate": (3.7802264062, 8.86)}
    for model, (gamma, distance) in gammas.items():
        settings = resolve_settings("wn18rr", model, "paper")
        triples = random_triples()
        built = new_model(settings, triples, N_ENTITIES, N_RELATIONS)
        heads, relations, tails = torch.from_numpy(triples.astype(np.int64)).T
        distinct = heads != tails
        encoded = built.encode(heads[distinct], relations[distinct])
        scores = built.score(encoded, tails[distinct].unsqueeze(1))
        assert float(scores.detach().mean()) == pytest.approx(gamma - distance, abs=0.3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_gradient_under_every_loss(model, loss) -> None:
    changes = ["regulariser=none", "relation_weight=0", "negatives=6", "pool_rows=4", "dropout=0.1"]
    settings = small_settings(model, f"loss={loss}", *changes)
    built, _, objective, relation = objective_of(settings, random_triples())
    objective(torch.arange(32) % len(relation)).backward()
    first = next(built.parameters())  # the entities, where there is a table of them
    assert torch.isfinite(first.grad).all()
    assert first.grad.abs().sum() > 0


@pytest.mark.parametrize("regulariser", ["fro", "nuc", "dura", "n3", "norms", "cubes"])
def test_the_penalty_is_added(regulariser) -> None:
    def loss(*changes: str) -> float:
        torch.manual_seed(0)
        objective = objective_of(small_settings("complex", *changes), random_triples())[2]
        return float(objective(torch.arange(32)).detach())

    plain = loss("regulariser=none")
    once, twice = (loss(f"regulariser={regulariser}", f"regulariser_weight={w}") for w in (50, 100))
    assert once > plain
    assert twice - plain == pytest.approx(2 * (once - plain), rel=1e-3)


@pytest.mark.parametrize("pool_rows", [1, 8, 32])
def test_scoring_all_and_picking_is_the_same_as_scoring_what_was_drawn(pool_rows) -> None:
    losses = []
    for score_all in ("true", "false"):
        changes = ["loss=bce_adv", "negatives=6", f"pool_rows={pool_rows}", "regulariser=none", "row_weights=true"]
        settings = small_settings("complex", *changes, f"score_all={score_all}")
        model, queries, objective, _ = objective_of(settings, random_triples())
        torch.manual_seed(5)
        losses.append(float(objective(torch.arange(32)).detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    torch.manual_seed(5)
    drawn = queries.negatives(32 // pool_rows, 6).repeat_interleave(pool_rows, dim=0)
    anchor, relation, answer = (column[:32] for column in (queries.anchor, queries.relation, queries.answer))
    scores = model.score(model.encode(anchor, relation))
    rows = negative_sampling(
        scores[torch.arange(32), answer],
        scores.gather(1, drawn),
        queries.known(anchor, relation, drawn),
        reduction="adv",
    )
    assert losses[1] == pytest.approx(float(weighted_mean(rows.detach(), queries.weight[:32])), rel=1e-6)


def relation_loss(model, head: int, tail: int, relation: int) -> float:
    """Return the cross-entropy of a relation among the rows of the table, each scored as a query of its own."""
    rows = torch.arange(len(model.relation))
    heads, tails = torch.full_like(rows, head), torch.full_like(rows, tail).unsqueeze(1)
    scores = model.score(model.encode(heads, rows), tails).squeeze(1).tolist()
    return math.log(sum(map(math.exp, scores))) - scores[relation]


@pytest.mark.parametrize("shared_inverse", ["true", "false"])
@pytest.mark.parametrize("row_weights", ["true", "false"])
@pytest.mark.parametrize("loss", ["1vsall", "bce_mean"])
@pytest.mark.parametrize("model", [name for name, entry in MODELS.items() if entry.scores_relations])
def test_predicted_relations_are_a_further_loss(model, loss, row_weights, shared_inverse) -> None:
    triples = random_triples()
    head, relation, tail = triples.T.tolist()
    n = len(triples)
    changes = [f"loss={loss}", "regulariser=none", f"row_weights={row_weights}", f"shared_inverse={shared_inverse}"]
    losses = []
    for weight in (0, 0.7):
        settings = small_settings(model, *changes, "pool_rows=1", "initialiser=x_norm", f"relation_weight={weight}")
        built, queries, objective, _ = objective_of(settings, triples)
        torch.manual_seed(3)
        # Some tails and some heads are asked for.
        losses.append(float(objective(torch.arange(32) + n - 16).detach()))
    rows, weights = [], []
    for example in range(n - 16, n + 16):
        asks_heads, i = divmod(example, n)
        if asks_heads and shared_inverse == "false":
            rows.append(relation_loss(built, tail[i], head[i], relation[i] + N_RELATIONS))
        else:
            rows.append(relation_loss(built, head[i], tail[i], relation[i]))
        weights.append(float(queries.weight[example]) if row_weights == "true" else 1.0)
    expected = sum(w * row for w, row in zip(weights, rows, strict=True)) / sum(weights)
    assert losses[1] - losses[0] == pytest.approx(0.7 * expected, rel=1e-4)
    assert expected > 0.1
