"""Names that packages export are those of their modules; other names are not there."""

from importlib import import_module

import pytest

EXPORTS = {
    "relens": "relens.runs:Run",
    "relens.clusters": "relens.clusters.remote:Remote",
    "relens.data": "relens.data.negatives:sample_negatives",
    "relens.ensemble": "relens.ensemble.methods.base:Method",
    "relens.importers": "relens.importers.importer:Importer",
    "relens.ranking": "relens.ranking.competition:Competition",
    "relens.training": "relens.training.loop:optimise",
}


@pytest.mark.parametrize("package", EXPORTS)
def test_a_package_exports_the_name_of_a_module(package: str) -> None:
    if package == "relens.training":
        pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    module, _, name = EXPORTS[package].partition(":")
    assert getattr(import_module(package), name) is getattr(import_module(module), name)


@pytest.mark.parametrize("package", EXPORTS)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nonsense'"):
        _ = import_module(package).nonsense


@pytest.mark.parametrize(
    ("name", "place"), [("fit", "relens.ensemble.search:search"), ("load_ranks", "relens.packs.store:load_pack")]
)
def test_a_name_may_differ_from_that_of_the_module(name: str, place: str) -> None:
    module, _, attribute = place.partition(":")
    assert getattr(import_module("relens"), name) is getattr(import_module(module), attribute)
