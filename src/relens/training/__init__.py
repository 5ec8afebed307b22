"""Training: settings, losses, the loop, and checkpoints."""

from relens.exports import lazy_exports

__getattr__ = lazy_exports(
    __name__,
    {
        "new_model": "relens.training.loop",
        "optimise": "relens.training.loop",
        "resolve_settings": "relens.training.presets",
    },
)
