import shutil

from tests.cli.commands import fail, relens_process, succeed


def test_the_report_goes_into_the_run_and_its_page_is_printed(run_path):
    outcome = succeed("report", run_path)
    assert outcome.out == f"{run_path}/report/index.html\n"
    assert (run_path / "report" / "index.html").is_file()
    assert f"open it in a browser: {(run_path / 'report' / 'index.html').as_uri()}" in outcome.err
    assert (run_path / "comparison.json").is_file()


def test_another_folder_and_json(run_path, tmp_path):
    found = succeed("report", run_path, "-o", tmp_path / "out", "--json").json
    assert found["page"] == str(tmp_path / "out" / "index.html")
    assert [name.split("/")[-1] for name in found["figures"]] == [
        f"{name}.{kind}" for name in ("comparison", "relations", "weights") for kind in ("png", "svg")
    ]
    assert not (run_path / "report").exists()


def test_curves_are_passed_on(run_path, monkeypatch):
    asked = []

    def write(run, folder, *, curves, progress):
        asked.append((run.path, folder, curves))
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        return folder / "index.html"

    monkeypatch.setattr("relens.reports.write_report", write)
    succeed("report", run_path, "--curves")
    succeed("report", run_path)
    assert asked == [(run_path, run_path / "report", True), (run_path, run_path / "report", False)]


def test_wrong_use_is_explained(run_path, tmp_path):
    fail(2, "is not a run", "report", tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    fail(2, "exists and is not a report", "report", run_path, "-o", tmp_path / "full")
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["thesis.tex"]
    shutil.rmtree(run_path / "ranks" / "test")
    fail(2, "has no ranks of test (present: valid)", "report", run_path)


def test_a_real_process_writes_the_same_page(run_path, tmp_path):
    succeed("report", run_path, "-o", tmp_path / "here")
    done = relens_process("report", run_path, "-o", tmp_path / "there")
    assert (done.code, done.out) == (0, f"{tmp_path}/there/index.html\n"), done.err
    for file in ("index.html", "figures/weights.svg", "figures/comparison.png"):
        assert (tmp_path / "here" / file).read_bytes() == (tmp_path / "there" / file).read_bytes()
