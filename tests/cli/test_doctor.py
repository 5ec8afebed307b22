"""``relens doctor`` says what is there, and warns of what is known to give trouble."""

import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import relens
from relens.cli import doctor
from tests.cli.commands import relens_process, succeed
from tests.patience import HANG

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
GIB = 2**30


def package_names(requirements):
    return tuple(requirement.split(">")[0].split("=")[0] for requirement in requirements)


def test_packages_of_the_extras_match_the_project_file():
    extras = {name: package_names(found) for name, found in PROJECT["optional-dependencies"].items()}
    user_facing = PROJECT["optional-dependencies"]["all"][0].partition("[")[2].rstrip("]").split(",")
    assert {name: doctor.EXTRAS[name] for name in user_facing} == {name: extras[name] for name in user_facing}
    assert package_names(PROJECT["dependencies"]) == doctor.CORE


def test_the_report_is_complete_in_both_forms(tmp_path, monkeypatch):
    monkeypatch.setenv("RELENS_HOME", str(tmp_path))
    monkeypatch.delenv("RELENS_DATA", raising=False)
    (tmp_path / "data" / "mine").mkdir(parents=True)
    (tmp_path / "data" / "mine" / "train.txt").write_bytes(b"x" * 1500)
    found = succeed("doctor", "--json").json
    assert list(found) == ["versions", "extras", "devices", "threads", "memory", "folders", "warnings"]
    assert found["versions"]["relens"] == relens.__version__
    assert found["versions"]["python"] == sys.version.split()[0]
    assert found["threads"]["usable"] >= 1
    assert found["folders"]["RELENS_DATA"] == {"path": None}
    cache = found["folders"]["cache"]
    assert (cache["path"], cache["bytes"], cache["holds"]) == (str(tmp_path / "data"), 1500, ["mine"])
    text = succeed("doctor").out
    for part in (f"relens  {relens.__version__}", "this process may use", "2 KB in mine", "RELENS_DATA      not set"):
        assert part in text


def test_it_runs_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\nfrom relens.cli.doctor import examine, _text\nprint(_text(examine()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=HANG)
    assert done.returncode == 0, done.stderr
    assert "torch              missing" in done.stdout


def test_a_package_that_is_missing_comes_with_its_command(monkeypatch):
    monkeypatch.setattr(doctor, "EXTRAS", {"odd": ("numpy", "no-such-package")})
    extra = doctor._extra("odd", ("numpy", "no-such-package"))
    assert extra["packages"]["no-such-package"] is None
    assert (
        doctor._extra_words(extra)
        == "missing no-such-package: pip install -c constraints.txt '.[odd]' in a clone of relens"
    )


def facts(**changes):
    """Return the facts of a machine without troubles, changed."""
    found = {
        "extras": {"train": {"packages": {"torch": "2.9"}}},
        "devices": {"torch_cuda": "12.8", "cuda": [], "triton": "3.5", "nvidia_driver": False},
        "threads": {"usable": 2, "numba": 2, "torch": 2, "numba_jit": True, **dict.fromkeys(doctor.THREAD_VARIABLES)},
        "memory": {"available": 8 * GIB},
        "folders": {"RELENS_DATA": {"path": None}, "cache": folder(), "NUMBA_CACHE_DIR": {"path": None}},
    }
    return {name: value | changes.get(name, {}) for name, value in found.items()}


def folder(**changes):
    return {"path": "/somewhere", "exists": True, "writable": True, "holds": [], "bytes": 0, "free": 9 * GIB, **changes}


def warnings_of(**changes):
    return [text for check in doctor.CHECKS for text in check(facts(**changes))]


def test_a_good_machine_has_no_warnings():
    assert warnings_of() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": {"cuda": [{}], "triton": None}}, "Triton is missing, so models on CUDA run without fused kernels"),
        ({"devices": {"cuda": [{"problem": "busy"}]}}, "cuda:0 does not respond (busy): use --device cpu"),
        ({"devices": {"nvidia_driver": True}}, "there is an NVIDIA driver, but torch sees no device"),
        ({"devices": {"nvidia_driver": True, "torch_cuda": None}}, "but torch was built without CUDA"),
        ({"threads": {"numba": 8}}, "numba uses 8 threads on 2 usable cores"),
        ({"threads": {"torch": 8}}, "set OMP_NUM_THREADS=2"),
        ({"threads": {"MKL_NUM_THREADS": "16"}}, "set MKL_NUM_THREADS=2"),
        ({"threads": {"numba_jit": False}}, "unset NUMBA_DISABLE_JIT"),
        ({"memory": {"available": 10**8}}, "100 MB of memory is left: pack with --memory 256M"),
        ({"folders": {"RELENS_DATA": folder(exists=False)}}, "RELENS_DATA is /somewhere, which is not a folder"),
        ({"folders": {"cache": folder(writable=False)}}, "/somewhere is not writable: set RELENS_HOME to a folder"),
        ({"folders": {"NUMBA_CACHE_DIR": folder(writable=False)}}, "not writable: set NUMBA_CACHE_DIR to one that is"),
        ({"folders": {"cache": folder(free=10**6)}}, "1 MB of disk space is left at /somewhere"),
    ],
)
def test_known_problems_cause_a_warning(changes, message):
    (warning,) = warnings_of(**changes)
    assert message in warning


def test_wrong_settings_show_in_the_report(tmp_path):
    (tmp_path / "file").write_text("")
    settings = {
        "RELENS_HOME": str(tmp_path / "file" / "below"),
        "RELENS_DATA": str(tmp_path / "nowhere"),
        "OMP_NUM_THREADS": "4096",
    }
    outcome = relens_process("doctor", "--json", **settings)
    assert outcome.code == 0, outcome.err
    found = outcome.json["warnings"]
    for part in ("below/data is not writable", "nowhere, which is not a folder", "OMP_NUM_THREADS uses 4096 threads"):
        assert any(part in warning for warning in found), (part, found)


def test_cuda_devices_are_listed_with_their_memory(monkeypatch):
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'relens[train]'")

    def memory(number):
        if number:
            raise RuntimeError("CUDA error: busy\nmore lines")
        return 3 * 10**9, 4 * 10**9

    cuda = SimpleNamespace(
        device_count=lambda: 2,
        mem_get_info=memory,
        get_device_name=lambda number: "Device X",
        get_device_capability=lambda number: (9, 0),
        is_available=lambda: True,
    )
    monkeypatch.setattr(torch, "cuda", cuda)
    devices = doctor._devices()
    assert devices["cuda"][1] == {"problem": "CUDA error: busy"}
    words = doctor._device_words(devices)
    assert words["cuda:0"] == "Device X, capability 9.0, 3.0 GB of 4.0 GB free"
    assert words["cuda:1"] == "does not respond"


def test_memory_of_other_systems_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "MEMORY_FACTS", tmp_path / "none")
    assert doctor._memory() == {"total": None, "available": None, "limit": None}
    (tmp_path / "meminfo").write_text("MemTotal: 2000 kB\nMemAvailable: 1000 kB\n")
    (tmp_path / "limit").write_text("5000\n")
    monkeypatch.setattr(doctor, "MEMORY_FACTS", tmp_path / "meminfo")
    monkeypatch.setattr(doctor, "CGROUP_LIMIT", tmp_path / "limit")
    assert doctor._memory() == {"total": 2_048_000, "available": 1_024_000, "limit": 5000}
