"""The examples of docs/ogb.md run."""

from tests.test_own_models_docs import ROOT, execute


def test_the_python_of_the_document_runs(capsys):
    namespace = execute(ROOT / "docs" / "ogb.md")
    assert "(2200, 20) sampled by relens: 20 per query, seed 0\n" in capsys.readouterr().out
    assert namespace["drawn"]["valid"].short_queries().tolist() == []
