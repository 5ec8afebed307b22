"""The layers: a module imports from its own stage and earlier ones, and nothing heavy loads before it is needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import relens
from tests.patience import HANG

ROOT = Path(relens.__file__).parent
STAGES = (
    {
        "relens",
        "relens.checksums",
        "relens.compiled",
        "relens.devices",
        "relens.errors",
        "relens.exports",
        "relens.files",
        "relens.options",
        "relens.progress",
        "relens.records",
        "relens.registry",
        "relens.seeding",
        "relens.toml",
        "relens.unpacking",
        "relens.visible",
    },
    {"relens.data"},
    {"relens.models"},
    {"relens.metrics", "relens.ranking"},
    {"relens.presets", "relens.training"},
    {"relens.packs"},
    {"relens.importers"},
    {"relens.clusters"},
    {"relens.ensemble"},
    {
        "relens.comparison",
        "relens.evaluation",
        "relens.run_comparison",
        "relens.runs",
        "relens.significance",
        "relens.staleness",
        "relens.tables",
    },
    {"relens.prediction"},
    {"relens.reports", "relens.serve"},
    {"relens.pipeline"},
    {"relens.answers", "relens.api"},
    {"relens.cli"},
    {"relens.__main__"},
)
CLI = len(STAGES) - 2
WITH_TORCH = (
    "relens.models",
    "relens.training",
    "relens.packs.export",
    "relens.prediction.row_evidence",
    "relens.prediction.row_ranks",
    "relens.ranking.scoring",
    "relens.ranking.validation",
    "relens.pipeline.measuring",
    "relens.pipeline.resolving",
    "relens.pipeline.training",
    "relens.pipeline.run",
)
HEAVY = ("torch", "numba", "optuna", "sklearn", "numpy")
MODULES = {
    ".".join(("relens", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


def stage_of(module: str) -> int:
    """Return the stage of a module; its first two names decide."""
    unit = ".".join(module.split(".")[:2])
    return next((number for number, units in enumerate(STAGES) if unit in units), -1)


def imported(node: ast.AST) -> list[str]:
    """Return the modules that one statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide the stage"
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in MODULES else str(node.module) for name in names]
    return []


def imports(module: str) -> list[str]:
    """Return everything a module imports, anywhere in it."""
    return [name for node in ast.walk(ast.parse(MODULES[module].read_text())) for name in imported(node)]


def imports_when_loaded(module: str) -> Iterator[str]:
    """Yield what is imported when the module is, as functions and type-checking blocks are not run then."""
    waiting: list[ast.AST] = [ast.parse(MODULES[module].read_text())]
    while waiting:
        node = waiting.pop()
        yield from imported(node)
        for child in ast.iter_child_nodes(node):
            lazy = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if not lazy and not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
                waiting.append(child)


def ours(names: Iterator[str] | list[str]) -> list[str]:
    return [name for name in names if name.split(".")[0] == "relens"]


def test_every_module_has_a_stage():
    assert [module for module in MODULES if stage_of(module) < 0] == [], "say in STAGES where it belongs"


def test_the_tree_is_read():
    assert {"relens", "relens.cli.search", "relens.ensemble.sweep_kernels", "relens.data.tsv"} <= MODULES.keys()
    assert "relens.ensemble.objective" in imports("relens.evaluation")  # from relens.ensemble import objective
    assert "optuna" in imports("relens.ensemble.searchers.tpe")
    assert "optuna" not in imports_when_loaded("relens.ensemble.searchers.tpe")


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_its_own_stage_and_earlier_ones(module):
    names = ours(imports_when_loaded(module) if module == "relens" else imports(module))
    later = [name for name in names if stage_of(name) > stage_of(module)]
    assert later == []


@pytest.mark.parametrize("module", [module for module in MODULES if stage_of(module) < CLI])
def test_nothing_but_main_imports_the_command_line(module):
    assert [name for name in imports(module) if name.startswith("relens.cli")] == []


def test_support_modules_have_no_import_cycles():
    assert ours(imports("relens.errors")) == []
    assert ours(imports("relens.progress")) == []
    assert ours(imports("relens.seeding")) == []
    assert set(ours(imports("relens.files"))) == {"relens.errors"}
    assert ours(imports("relens.exports")) == []
    assert ours(imports_when_loaded("relens")) == ["relens.exports"]


def test_only_modules_that_run_models_import_torch():
    with_torch = [m for m in MODULES if any(name.split(".")[0] == "torch" for name in imports_when_loaded(m))]
    assert [module for module in with_torch if not module.startswith(WITH_TORCH)] == []


@pytest.mark.parametrize("extra", ["optuna", "sklearn"])
def test_extras_are_imported_by_the_function_that_needs_them(extra):
    eager = [m for m in MODULES if any(name.split(".")[0] == extra for name in imports_when_loaded(m))]
    assert eager == []


def loaded_by(code: str) -> set[str]:
    """Return which heavy packages a fresh interpreter has loaded after ``code``."""
    report = f"import sys; print('loaded:', *[name for name in {HEAVY} if name in sys.modules])"
    script = f"{code}\n{report}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=HANG)
    return set(done.stdout.splitlines()[-1].split()[1:])


MAIN = "from relens.cli import main\ntry: main()\nexcept SystemExit: pass"


def test_the_check_for_loaded_packages_sees_them():
    assert loaded_by("import relens.ensemble.grid") == {"numpy"}


@pytest.mark.parametrize(
    "code",
    [
        "import relens; dir(relens)",
        "import relens.cli.console",
        f"import sys; sys.argv = ['relens', '--help']\n{MAIN}",
        f"import sys; sys.argv = ['relens', 'nonsense']\n{MAIN}",
    ],
    ids=["import", "console", "help", "wrong verb"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code):
    assert loaded_by(code) == set()
