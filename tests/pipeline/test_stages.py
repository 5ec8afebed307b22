"""Records of stages: a stage is complete as long as its inputs and all the files that it left are what they were."""

import pytest

from relens.errors import InputError
from relens.files import read_json, write_json
from relens.pipeline.stages import Stage, _digest
from relens.records import STAGE
from relens.runs import Run


@pytest.fixture
def run(tmp_path):
    run = Run.create(tmp_path / "run", "toy")
    (run.path / "report" / "figures").mkdir(parents=True)
    return run


def stage(run, name="report", made_from=("a", 1), older=lambda: ("old inputs", "old outputs")):
    return Stage(run, name, made_from, older)


def work(run, done):
    def written():
        done.append(1)
        files = [run.report_path / "index.html", run.report_path / "figures" / "one.svg"]
        for file in files:
            file.write_text(f"the {file.name}")
        return files

    return written


def test_a_complete_stage_is_not_repeated(run):
    done: list[int] = []
    for repeat in (False, False, True, False):
        stage(run).ensure(work(run, done), repeat=repeat)
    assert len(done) == 2
    assert stage(run).complete
    assert not stage(run, made_from=("a", 2)).complete
    record = read_json(run.path / "stages" / "report.json", "stage")
    assert list(record["left"]) == ["report/figures/one.svg", "report/index.html"]


@pytest.mark.parametrize("file", ["report/index.html", "report/figures/one.svg", "stages/report.json"])
@pytest.mark.parametrize("damage", ["missing", "flipped", "cut", "swapped"])
def test_a_damaged_file_repeats_the_stage(run, file, damage):
    done: list[int] = []
    stage(run).ensure(work(run, done))
    path = run.path / file
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "swapped":
        path.write_bytes(bytes(reversed(content)))
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content if damage == "flipped" else content[:-1])
    assert not stage(run).complete
    stage(run).ensure(work(run, done))
    assert stage(run).complete
    assert len(done) == 2


def test_files_that_the_stage_did_not_leave_are_nobodys_concern(run):
    stage(run).ensure(work(run, []))
    (run.report_path / "notes.txt").write_text("mine")
    assert stage(run).complete
    assert stage(run).lists(run.report_path / "index.html")
    assert not stage(run).lists(run.report_path / "notes.txt")
    assert not stage(run, "search").lists(run.report_path / "index.html")


def test_an_earlier_stage_marks_later_ones_as_incomplete(run):
    stage(run).ensure(work(run, []))
    with pytest.raises(InputError):
        stage(run, "search").ensure(lambda: stop())
    assert not (run.path / "stages" / "report.json").exists()


def stop():
    raise InputError("stop")


def test_records_of_an_older_relens_are_compared_in_their_own_way(run):
    record = {"made_from": _digest("old inputs"), "left": _digest("old outputs")}
    write_json(run.path / "stages" / "report.json", STAGE.stamp(record))
    assert stage(run).complete
    assert not stage(run, older=lambda: ("old inputs", "others")).complete
    assert not stage(run, older=lambda: ("others", "old outputs")).complete
    assert not stage(run).lists(run.report_path / "index.html")
