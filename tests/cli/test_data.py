import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relens.cli.data import data
from relens.data import catalog
from relens.data.catalog import CATALOG, CatalogEntry
from relens.data.checks import suspicions
from relens.data.dataset import Dataset, read_folder, write_folder
from relens.errors import DatasetError
from tests.patience import HANG

TOY = Dataset.from_labels(
    "toy",
    train=[("a", "likes [much]", "b"), ("a", "likes [much]", "c"), ("b", "knows", "a")],
    valid=[("c", "likes [much]", "new")],
    test=[("a", "owns", "b"), ("a", "likes [much]", "b")],
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RELENS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "toy"
    folder.mkdir()
    write_folder(TOY, folder)
    return folder


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(data, list(arguments), catch_exceptions=False)


def relens(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the real command line in a process of its own."""
    command = [sys.executable, "-m", "relens", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)


def test_list_names_the_catalogue_and_where_each_one_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    (home / "data" / "UMLS").mkdir(parents=True)
    result = invoke("list")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.startswith(" ")}
    assert list(lines) == ["data", *CATALOG]
    assert lines["wn18rr"].split()[1:6] == ["40,943", "11", "86,835", "3,034", "3,134"]
    assert lines["wn18rr"].rstrip().endswith("not here")
    assert result.stdout.splitlines()[-1] == "not here: download it with `relens data get NAME`"
    assert lines["umls"].rstrip().endswith(str(home / "data" / "UMLS"))


def test_list_as_json_tells_imported_from_catalogued(home: Path, folder: Path) -> None:
    invoke("import", str(folder), "--name", "kin")
    entries = json.loads(invoke("list", "--json").stdout)["datasets"]
    assert [entry["name"] for entry in entries] == [*CATALOG, "kin"]
    assert [entry["catalogued"] for entry in entries] == [True] * len(CATALOG) + [False]
    assert entries[0]["folder"] is None
    assert entries[-1] == {
        "name": "kin",
        "catalogued": False,
        "generated": False,
        "folder": str(home / "data" / "kin"),
        "counts": TOY.counts,
        "fingerprint": TOY.fingerprint,
    }


def test_show_describes_a_folder(folder: Path) -> None:
    output = invoke("show", str(folder)).stdout
    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert lines[0] == f"toy, fingerprint {TOY.fingerprint}, read from {folder}"
    for expected in (
        "4 entities",
        "3 relations",
        "3 train triples",
        "1 valid triples with an entity that train lacks",
        "0 test triples with an entity that train lacks",
        "2 relations that valid lacks",
        "0 triples repeated within a split",
        "1 triples repeated in another split",
        "3 of 3 relations, by training triples",
        "1-N 2 1 1 likes [much]",
        "1-1 1 0 0 knows",
        "unknown 0 0 1 owns",
    ):
        assert expected in lines


def test_show_limits_the_relations(folder: Path) -> None:
    one = invoke("show", str(folder), "--relations", "1").stdout
    assert "1 of 3 relations" in one
    assert "likes [much]" in one
    assert "knows" not in one
    assert "by training triples" not in invoke("show", str(folder), "--relations", "0").stdout


def test_show_as_json_is_the_whole_description(folder: Path) -> None:
    facts = json.loads(invoke("show", str(folder), "--json").stdout)
    assert facts["folder"] == str(folder)
    assert facts["counts"] == TOY.counts
    assert facts["fingerprint"] == TOY.fingerprint
    assert [row["class"] for row in facts["relations"]] == ["1-1", "1-N", ""]


def test_show_repeats_the_warnings_of_run(tmp_path: Path) -> None:
    folder = tmp_path / "suspicious"
    folder.mkdir()
    for split in TOY.splits:
        (folder / f"{split}.txt").write_text(f"head\trelation\ttail\na\tr\tb {split}\n", encoding="utf-8")
    warnings = suspicions(read_folder(folder))
    assert warnings[0].startswith("train, valid and test begin with the same line, 'head relation tail'")
    assert json.loads(invoke("show", str(folder), "--json").stdout)["warnings"] == warnings
    assert [line for line in invoke("show", str(folder)).stdout.splitlines() if line.startswith("warning: ")] == [
        f"warning: {text}" for text in warnings
    ]


def test_import_prints_the_folder_and_show_takes_the_name(home: Path, folder: Path) -> None:
    result = invoke("import", str(folder), "--name", "Kin")
    assert result.stdout == f"{home / 'data' / 'kin'}\n"
    assert f"imported {folder} as kin" in result.stderr
    assert json.loads(invoke("show", "kin", "--json").stdout)["fingerprint"] == TOY.fingerprint
    with pytest.raises(DatasetError, match="exists already"):
        invoke("import", str(folder), "--name", "kin")
    assert json.loads(invoke("import", str(folder), "--name", "kin", "--force", "--json").stdout)["name"] == "kin"


def test_get_checks_what_is_here_and_ignores_a_folder_of_that_name(
    home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOG, "toy", CatalogEntry("toy", "TOY", TOY.counts, TOY.fingerprint))
    with pytest.raises(DatasetError, match="toy is not on this machine"):
        invoke("get", "toy", "--offline")
    cached = home / "data" / "TOY"
    cached.mkdir(parents=True)
    write_folder(TOY, cached)
    result = invoke("get", "TOY")
    assert result.stdout == f"{cached}\n"
    assert "toy was here already" in result.stderr
    answer = json.loads(invoke("get", "toy", "--json").stdout)
    assert (answer["folder"], answer["fetched"]) == (str(cached), False)


def test_get_fetches_what_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = dict.fromkeys(TOY.splits, ("https://example.org/file.txt",))
    monkeypatch.setitem(CATALOG, "toy", CatalogEntry("toy", "TOY", TOY.counts, TOY.fingerprint, sources))
    monkeypatch.setattr(catalog, "download_splits", lambda sources, folder, progress: write_folder(TOY, folder))
    result = invoke("get", "toy", "--json")
    assert json.loads(result.stdout)["fetched"] is True
    assert "toy was downloaded" in result.stderr
    assert (home / "data" / "TOY").is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "wn18"], "did you mean 'wn18rr'"),
        (["get", "wn18rr", "--offline"], "wn18rr is not on this machine"),
        (["import", "nowhere", "--name", "x"], "'nowhere' does not exist"),
        (["import", "."], "Missing option '--name'"),
    ],
)
def test_wrong_input_exits_with_2_and_a_message_on_stderr(arguments: list[str], message: str) -> None:
    finished = relens("data", *arguments)
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr


def test_failed_network_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    finished = relens("data", "get", "umls")
    assert finished.returncode == 1
    assert "cannot fetch https://" in finished.stderr
    assert os.path.join("data", "UMLS") in finished.stderr


@pytest.mark.parametrize("verb", ["list", "show", "get", "import"])
def test_every_verb_has_help_and_json(verb: str) -> None:
    text = invoke(verb, "--help").stdout
    assert "--json" in text
    assert invoke("--help").stdout.count(verb) >= 1
