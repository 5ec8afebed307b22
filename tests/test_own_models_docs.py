"""What the documents show runs as it stands: snippets, examples, and the page of commands."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BRING, ADD = ROOT / "docs" / "bring-your-own-models.md", ROOT / "docs" / "how-to-add-a-model.md"


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def execute(path: Path) -> dict:
    """Run the Python of a document in a module of its own."""
    namespace = {"__name__": f"docs.{path.stem}"}
    for code in blocks(path, "python"):
        exec(compile(code, str(path), "exec"), namespace)
    return namespace


def test_the_page_of_commands_is_current():
    """In a process of its own: click keeps a command's help option as its first caller in a process wanted it."""
    check = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate_commands.py", "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr


def test_a_scorer_is_packed_as_the_document_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    execute(BRING)
    assert "2200 queries packed\n" in capsys.readouterr().out
    assert (tmp_path / "runs" / "frequency" / "ranks" / "valid").is_dir()


def test_the_model_of_the_document_trains_and_keeps_the_contract(capsys):
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")
    from relens.training.presets import settings_from_values

    threads = torch.get_num_threads()
    try:
        namespace = execute(ADD)
    finally:
        torch.set_num_threads(threads)
    entry = namespace["DISTMULT"]
    assert entry.model is namespace["DistMult"]
    assert namespace["result"].best_mrr > 0.15, "a guess is at .01"
    assert f"{namespace['result'].best_mrr:.3f}" in capsys.readouterr().out
    point, preset = map(tomllib.loads, blocks(ADD, "toml"))
    assert point["project"]["entry-points"]["relens.models"] == {"distmult": "my_package.distmult:DISTMULT"}
    assert settings_from_values(entry, preset["distmult"]["default"]).options["dim"] == 64

    model = entry.build(9, 3, {"dim": 5})
    model.initialise("norm", torch.Generator().manual_seed(0))
    anchor, relation = torch.tensor([0, 4, 8]), torch.tensor([0, 5, 2])
    scores = model.score(model.encode(anchor, relation))
    for row, (a, r) in enumerate(zip(anchor.tolist(), relation.tolist(), strict=True)):
        for e in range(9):
            expected = (model.entity[a] * model.relation[r % 3] * model.entity[e]).sum()
            torch.testing.assert_close(scores[row, e], expected)
    candidates = torch.tensor([[1, 2], [0, 8], [4, 4]])
    given = model.score(model.encode(anchor, relation), candidates)
    torch.testing.assert_close(given, scores.gather(1, candidates))


@pytest.mark.parametrize(("name", "needs"), [("own_model", "torch"), ("pykeen_models", "pykeen")])
def test_the_examples_run(name, needs, tmp_path):
    pytest.importorskip(needs, reason=f"the example needs {needs}")
    command = [sys.executable, ROOT / "examples" / f"{name}.py", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = dict(re.findall(r"^ (\S+) +(0\.\d{4})", done.stdout, flags=re.MULTILINE))
    models = ("frequency", "complex") if name == "own_model" else ("transe", "complex")
    assert rows.keys() == {*models, "mean", "simple", "dsc"}
    best = max(float(rows[model]) for model in models)
    assert float(rows["dsc"]) > best
    assert (tmp_path / "run" / "weights" / "dsc.json").is_file()
