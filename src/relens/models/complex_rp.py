"""ComplEx-RP (Chen et al., 2021): ComplEx, trained to predict relations as well.

The model is ``ComplEx``. Its presets differ: they set ``relation_weight``.
"""

from relens.models.complex import ComplEx
from relens.models.entry import ModelEntry

COMPLEX_RP = ModelEntry(
    "complex-rp", ComplEx, "ComplEx, trained to predict relations as well (Chen et al., 2021)", order=8
)
