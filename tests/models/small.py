"""Small models with parameters drawn at random."""

import torch

from relens.models import MODELS, KGEModel

N_ENTITIES, N_RELATIONS = 9, 3
TRIPLES = torch.tensor(
    [(0, 0, 1), (1, 0, 2), (0, 1, 2), (3, 1, 0), (3, 2, 4), (5, 2, 5), (0, 0, 1), (6, 1, 7), (2, 2, 0)]
)

OPTIONS: dict[str, list[dict[str, object]]] = {
    "transe": [{"dim": 5, "gamma": 3}, {"dim": 4, "shared_inverse": False}],
    "rotate": [{"dim": 6, "gamma": 2.5}, {"dim": 4, "shared_inverse": False}],
    "house": [
        {"dim": 7, "block": 3, "projections": 2},
        {"dim": 8, "block": 4, "projections": 0},
        {"dim": 6, "block": 2, "reflections": 3, "limit": 0.001},
    ],
    "complex": [{"dim": 6}, {"dim": 4, "shared_inverse": False}],
    "conve": [
        {"dim": 12, "height": 2, "channels": 3},
        {"dim": 12, "height": 4, "channels": 2, "original": True, "shared_inverse": False},
        {"dim": 12, "height": 3, "channels": 2, "image_dropout": 0.2, "feature_dropout": 0.3, "hidden_dropout": 0.4},
    ],
    "autoblm": [{"dim": 8}, {"dim": 4, "shared_inverse": False}],
    "complex-rp": [{"dim": 4}],
    "triplere": [
        {"dim": 5, "gamma": 3},
        {"dim": 4, "offset": 0.7, "shared_inverse": False},
    ],
    "stargraph": [
        {"dim": 6, "token_dim": 3, "heads": 2, "neighbours": 2, "anchors": 4, "nearest": 3},
        {"dim": 4, "token_dim": 2, "heads": 1, "neighbours": 0, "anchors": 2, "nearest": 2, "shared_inverse": True},
    ],
    "interht": [
        {
            "dim": 6,
            "token_dim": 3,
            "neighbour_dim": 2,
            "heads": 3,
            "outgoing": 2,
            "incoming": 1,
            "anchors": 4,
            "nearest": 3,
        },
        {"dim": 4, "token_dim": 2, "heads": 2, "nearest": 2, "relation_scale": 0.4, "shared_inverse": True},
    ],
    "compgcn": [
        {"dim": 6, "init_dim": 4, "height": 4, "kernel": 2, "filters": 3},
        {"dim": 8, "init_dim": 5, "height": 4, "kernel": 3, "filters": 2, "layers": 1, "composition": "mult"},
        {"dim": 6, "init_dim": 3, "height": 3, "kernel": 2, "filters": 2, "composition": "sub"},
    ],
    "nbfnet": [
        {"width": 6, "layers": 3},
        {"width": 5, "layers": 2, "edge_vectors": "independent"},
        {"width": 4, "layers": 2, "aggregate": "sum", "removal": "pair"},
    ],
}
CASES = [(name, options) for name, variants in OPTIONS.items() for options in variants]
IDS = [f"{name}-{number}" for name, variants in OPTIONS.items() for number in range(len(variants))]


def make(name: str, options: dict[str, object], seed: int = 0) -> KGEModel:
    """Return a model for evaluation; what starts at zero or one is drawn at random as well."""
    generator = torch.Generator().manual_seed(seed)
    model = MODELS.find(name).build(N_ENTITIES, N_RELATIONS, options, TRIPLES)
    model.initialise(None, generator)
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if value.dtype == torch.float64 and (key == "bias" or value.unique().numel() == 1):
                value.copy_(0.5 + torch.rand(value.shape, generator=generator))
    return model.eval()


def all_queries() -> tuple[torch.Tensor, torch.Tensor]:
    """Return anchors and directed relations of all queries there are, (B,) each."""
    pairs = torch.cartesian_prod(torch.arange(N_ENTITIES), torch.arange(2 * N_RELATIONS))
    return pairs[:, 0], pairs[:, 1]


def all_scores(model: KGEModel) -> torch.Tensor:
    """Return scores by anchor, directed relation and candidate, (E, 2R, E)."""
    with torch.no_grad():
        return model.score(model.encode(*all_queries())).view(N_ENTITIES, 2 * N_RELATIONS, N_ENTITIES)
