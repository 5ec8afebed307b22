"""The shape of the code: short functions, few parameters, and a test file for every module."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import relens
from tests.conftest import QUICK

ROOT = Path(relens.__file__).parent
TESTS = Path(__file__).parent
MODULES = sorted(
    path.relative_to(ROOT) for path in ROOT.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")
)
MAX_LINES, MAX_PARAMETERS = 60, 7

COVERED_BY = {
    "answers.py": "test_api.py",
    "cli/answer_tables.py": "cli/test_predict.py",
    "cli/opening.py": "cli/test_predict.py",
    "cli/ranks_report.py": "cli/test_ranks.py",
    "clusters/engines.py": "clusters/test_remote.py",
    "data/archives.py": "data/test_ogb_catalog.py",
    "data/download.py": "data/test_catalog.py",
    "data/label_kernels.py": "data/test_labels.py",
    "data/preparation/columns.py": "data/preparation/test_delimited.py",
    "data/preparation/facts.py": "data/preparation/test_prepare.py",
    "data/preparation/settings.py": "data/preparation/test_sources.py",
    "data/tsv.py": "data/test_dataset.py",
    "data/vocabulary.py": "data/test_dataset.py",
    "models/edge_gradients.py": "models/test_paths.py",
    "models/path_kernels.py": "models/test_paths.py",
    "packs/checks.py": "packs/test_store.py",
    "ensemble/context.py": "ensemble/test_search.py",
    "ensemble/distributed.py": "clusters/test_remote.py",
    "ensemble/inputs/": "ensemble/test_inputs.py",
    "ensemble/methods/": "ensemble/test_methods.py",
    "ensemble/regularisation.py": "ensemble/test_crossval.py",
    "ensemble/searchers/": "ensemble/test_sampling.py",
    "ensemble/settings.py": "ensemble/test_search.py",
    "importers/arrays.py": "importers/test_scores.py",
    "importers/layouts/authors.py": "importers/test_authors.py",
    "importers/layouts/pykeen.py": "importers/test_pykeen.py",
    "importers/layouts/scores.py": "importers/test_scores.py",
    "importers/members.py": "pipeline/test_members.py",
    "importers/numbering.py": "importers/test_scores.py",
    "metrics/": "test_metrics.py",
    "models/autoblm.py": "models/test_formulas.py",
    "models/complex.py": "models/test_formulas.py",
    "models/complex_rp.py": "models/test_contract.py",
    "models/conve.py": "models/test_formulas.py",
    "models/cpu_blocks.py": "models/test_cpu.py",
    "models/cpu_kernels.py": "models/test_cpu.py",
    "models/cpu_propagation_kernels.py": "models/test_cpu_propagation.py",
    "models/embedding.py": "models/test_contract.py",
    "models/entry.py": "models/test_options.py",
    "models/fused/": "models/test_kernels.py",
    "models/graph.py": "models/test_compgcn.py",
    "models/house.py": "models/test_formulas.py",
    "models/interht.py": "models/test_formulas.py",
    "models/rotate.py": "models/test_formulas.py",
    "models/stargraph.py": "models/test_tokens.py",
    "models/token_model.py": "models/test_tokens.py",
    "models/transe.py": "models/test_formulas.py",
    "models/triplere.py": "models/test_formulas.py",
    "options.py": "ensemble/test_search.py",
    "packs/kernels.py": "packs/test_packing.py",
    "packs/pack.py": "packs/test_store.py",
    "packs/thinning.py": "ensemble/test_pairs.py",
    "pipeline/budgeting.py": "pipeline/test_budget.py",
    "pipeline/ranking.py": "pipeline/test_run.py",
    "prediction/entity_answers.py": "prediction/test_ensemble.py",
    "prediction/members.py": "prediction/test_ensemble.py",
    "prediction/relation_search.py": "prediction/test_discovery.py",
    "prediction/opening.py": "prediction/test_ensemble.py",
    "prediction/predictions.py": "prediction/test_ensemble.py",
    "prediction/voting.py": "prediction/test_ensemble.py",
    "progress.py": "cli/test_console.py",
    "ranking/competition.py": "ranking/test_rule.py",
    "ranking/scorers.py": "importers/test_scorers.py",
    "ranking/scoring.py": "ranking/test_rule.py",
    "reports/summary.py": "reports/test_write.py",
    "reports/material.py": "reports/test_write.py",
    "reports/page.py": "reports/test_write.py",
    "reports/times.py": "reports/test_write.py",
    "serve/app.py": "serve/test_api.py",
    "serve/guard.py": "serve/test_api.py",
    "serve/lookup.py": "serve/test_api.py",
    "serve/refusals.py": "serve/test_api.py",
    "tables/formats.py": "test_tables.py",
    "tables/results.py": "test_tables.py",
    "tables/table.py": "test_tables.py",
    "training/log.py": "training/test_loop.py",
    "training/state.py": "training/test_loop.py",
    "training/step.py": "training/test_cuda.py",
}
"""Modules without a test file of their own, or whole folders of small ones, and the file that covers them."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A function: the module it stands in, the classes around it, and its node."""

    module: Path
    owner: str
    node: Function

    def __str__(self) -> str:
        return f"{self.module}:{self.node.lineno} {self.owner}{self.node.name}"


def functions(module: Path) -> Iterator[Found]:
    """Yield all functions of a module, nested ones and methods included."""

    def walk(node: ast.AST, owner: str) -> Iterator[Found]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield Found(module, owner, child)
            inner = f"{child.name}." if isinstance(child, ast.ClassDef) else owner
            yield from walk(child, inner)

    yield from walk(ast.parse((ROOT / module).read_text(encoding="utf-8")), "")


def decorated_with(found: Found, *names: str) -> bool:
    """Say whether a decorator of the function mentions one of some names."""
    texts = [ast.unparse(decorator) for decorator in found.node.decorator_list]
    return any(name in text for text in texts for name in names)


def n_lines(found: Found) -> int:
    """Count the lines of a function without its docstring, which may be long for public verbs."""
    first = found.node.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (found.node.end_lineno or 0) - found.node.lineno + 1 - docstring


def is_kernel(found: Found) -> bool:
    return decorated_with(found, "njit", "triton.jit")


def is_command(found: Found) -> bool:
    return decorated_with(found, "click.", ".command(")


def parameters(found: Found) -> list[ast.arg]:
    """Return the parameters but ``self`` and ``cls``."""
    arguments = found.node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument for argument in every if argument.arg not in ("self", "cls")]


def is_exempt(found: Found) -> bool:
    """Kernels, commands, constructors of models, and public verbs whose parameters are keyword-only."""
    if is_kernel(found) or is_command(found):
        return True
    if found.module.parts[0] == "models" and found.node.name == "__init__":
        return True
    public = not found.owner and not found.node.name.startswith("_")
    return public and len(found.node.args.args) <= 2 and len(found.node.args.kwonlyargs) > MAX_PARAMETERS - 2


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_functions_are_short(module: Path) -> None:
    long = [
        f"{found}: {n_lines(found)} lines"
        for found in functions(module)
        if n_lines(found) > MAX_LINES and not is_kernel(found)
    ]
    assert long == []


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_functions_take_few_parameters(module: Path) -> None:
    many = [
        f"{found}: {len(parameters(found))} parameters"
        for found in functions(module)
        if len(parameters(found)) > MAX_PARAMETERS and not is_exempt(found)
    ]
    assert many == []


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_booleans_are_passed_by_keyword(module: Path) -> None:
    by_position = [
        f"{found}: {argument.arg}"
        for found in functions(module)
        if not is_kernel(found) and not is_command(found) and not decorated_with(found, "setter")
        for argument in (*found.node.args.posonlyargs, *found.node.args.args)
        if argument.annotation is not None and ast.unparse(argument.annotation) in ("bool", "bool | None")
        and (found.node.name, argument.arg) != ("train", "mode")  # the signature of torch.nn.Module
    ]  # fmt: skip
    assert by_position == []


def own_test(module: Path) -> Path:
    """Return where the tests of a module are expected: relens/data/tsv.py has tests/data/test_tsv.py."""
    return TESTS / module.parent / f"test_{module.name}"


def cover_of(module: Path) -> str | None:
    """Return the test file that is said to cover a module, or its folder."""
    return next((COVERED_BY[place] for place in (str(module), f"{module.parent}/") if place in COVERED_BY), None)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_every_module_has_a_test_file(module: Path) -> None:
    cover = cover_of(module)
    if cover is None:
        assert own_test(module).is_file(), "write it, or say in COVERED_BY which file covers the module"
    else:
        assert not own_test(module).exists(), "it has a test file of its own: remove it from COVERED_BY"
        assert (TESTS / cover).is_file()


def test_modules_in_the_table_of_covers_exist() -> None:
    places = {str(module) for module in MODULES} | {f"{module.parent}/" for module in MODULES}
    assert set(COVERED_BY) - places == set()


def test_the_quick_tests_look_at_every_package() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"presets", "metrics", "tables"}
    assert {Path(file).parent.name for file in QUICK} >= packages
    assert [file for file in QUICK if not (TESTS.parent / file).is_file()] == []
    assert {"tests/test_metrics.py", "tests/test_tables.py"} <= QUICK
