"""Ensembles: inputs, searchers, methods, and the weights that they find."""

from relens.exports import lazy_exports

__getattr__ = lazy_exports(
    __name__,
    {
        "Input": "relens.ensemble.inputs.base",
        "Method": "relens.ensemble.methods.base",
        "MethodResult": "relens.ensemble.methods.base",
        "RankInput": "relens.ensemble.inputs.base",
        "Sampler": "relens.ensemble.sampling",
        "SearchJournal": "relens.ensemble.distributed",
        "Searcher": "relens.ensemble.searchers.base",
        "model_mrrs": "relens.ensemble.objective",
        "to_grid": "relens.ensemble.grid",
    },
)
