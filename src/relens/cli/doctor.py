"""``relens doctor``: versions, devices, threads, memory, folders, and warnings about known problems."""

import os
import platform
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from relens import __version__
from relens.cli.console import emit, emit_json
from relens.cli.options import json_option
from relens.data.catalog import cache_folder
from relens.errors import install_hint

CORE = ("numpy", "numba", "joblib", "click", "rich")
EXTRAS = {
    "train": ("torch", "safetensors"),
    "tpe": ("optuna",),
    "stacking": ("scikit-learn",),
    "report": ("matplotlib", "jinja2"),
    "serve": ("fastapi", "uvicorn"),
    "pykeen": ("pykeen",),
    "parquet": ("pyarrow",),
    "rdf": ("rdflib",),
    "zstd": ("backports.zstd",),
}
"""The packages of each extra."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SCARCE_BYTES = 2**30
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
MEMORY_FACTS = Path("/proc/meminfo")
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")

Facts = dict[str, Any]


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Show versions, devices, threads, memory and caches, and warn about known problems."""
    facts = examine()
    if as_json:
        emit_json(facts)
    else:
        emit(_text(facts))


def examine() -> Facts:
    """Return all facts and the warnings that follow from them, as plain JSON values."""
    facts: Facts = {
        "versions": _versions(),
        "extras": {extra: _extra(extra, packages) for extra, packages in EXTRAS.items()},
        "devices": _devices(),
        "threads": _threads(),
        "memory": _memory(),
        "folders": {name: _folder(path) for name, path in _folders().items()},
    }
    return {**facts, "warnings": [text for check in CHECKS for text in check(facts)]}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _versions() -> Facts:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    core = {package: _version(package) for package in CORE}
    return {"relens": __version__, "python": platform.python_version(), "system": system, **core}


def _extra(extra: str, packages: tuple[str, ...]) -> Facts:
    found = {package: _version(package) for package in packages}
    install = None if all(found.values()) else install_hint(extra)
    return {"packages": found, "install": install}


def _devices() -> Facts:
    """Describe the devices for models; without torch, no GPU is listed."""
    triton = _version("triton") if find_spec("triton") else None
    driver = NVIDIA_DRIVER.is_file()
    if find_spec("torch") is None:
        return {"torch_cuda": None, "cuda": [], "triton": triton, "nvidia_driver": driver}
    import torch

    return {
        "torch_cuda": torch.version.cuda,
        "cuda": [_cuda_device(number) for number in range(torch.cuda.device_count())],
        "triton": triton,
        "nvidia_driver": driver,
    }


def _cuda_device(number: int) -> Facts:
    import torch

    try:
        free, total = torch.cuda.mem_get_info(number)
        capability = ".".join(map(str, torch.cuda.get_device_capability(number)))
        name = torch.cuda.get_device_name(number)
    except RuntimeError as error:  # the device is listed but does not respond
        return {"problem": str(error).partition("\n")[0]}
    return {"name": name, "capability": capability, "free": free, "total": total}


def _threads() -> Facts:
    """Count the cores, the cores that this process may use, and the threads that libraries would start."""
    import joblib
    import numba

    config: Any = numba.config
    threads: Facts = {
        "cores": os.cpu_count(),
        "usable": joblib.cpu_count(),
        "numba": config.NUMBA_NUM_THREADS,
        "numba_jit": not config.DISABLE_JIT,
        "torch": None,
        **{variable: os.environ.get(variable) for variable in THREAD_VARIABLES},
    }
    if find_spec("torch") is not None:
        import torch

        threads["torch"] = torch.get_num_threads()
    return threads


def _memory() -> Facts:
    """Return the total and the available memory and the limit of this process, in bytes; None if unknown."""
    if not MEMORY_FACTS.is_file():
        return {"total": None, "available": None, "limit": None}
    lines = (line.split() for line in MEMORY_FACTS.read_text().splitlines())
    kilobytes = {words[0].rstrip(":"): int(words[1]) for words in lines}
    limit = CGROUP_LIMIT.read_text().strip() if CGROUP_LIMIT.is_file() else "max"
    return {
        "total": kilobytes["MemTotal"] * 1024,
        "available": kilobytes["MemAvailable"] * 1024,
        "limit": None if limit == "max" else int(limit),
    }


def _folders() -> dict[str, Path | None]:
    """Return the folders of data sets and of compiled code; None if a variable is not set."""
    data, kernels = os.environ.get("RELENS_DATA"), os.environ.get("NUMBA_CACHE_DIR")
    return {
        "RELENS_DATA": Path(data) if data else None,
        "cache": cache_folder(),
        "NUMBA_CACHE_DIR": Path(kernels) if kernels else None,
    }


def _folder(path: Path | None) -> Facts:
    """Describe a folder and its content; a folder that does not exist is writable if it could be created."""
    if path is None:
        return {"path": None}
    standing = next(parent for parent in (path, *path.parents) if parent.exists())
    readable = path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    entries = sorted(path.iterdir()) if readable else []
    return {
        "path": str(path),
        "exists": path.is_dir(),
        "writable": standing.is_dir() and os.access(standing, os.W_OK | os.X_OK),
        "holds": [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")],
        "bytes": sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if readable else 0,
        "free": shutil.disk_usage(standing).free,
    }


def _check_devices(facts: Facts) -> list[str]:
    devices, warnings = facts["devices"], []
    has_torch = facts["extras"]["train"]["packages"]["torch"] is not None
    if devices["cuda"] and devices["triton"] is None:
        warnings.append(
            "Triton is missing, so models on CUDA run without fused kernels, slower and with more memory: "
            "pip install triton"
        )
    warnings += [
        f"cuda:{number} does not respond ({device['problem']}): use --device cpu, or restart its driver"
        for number, device in enumerate(devices["cuda"])
        if "problem" in device
    ]
    if devices["nvidia_driver"] and has_torch and not devices["cuda"]:
        reason = "sees no device" if devices["torch_cuda"] else "was built without CUDA"
        warnings.append(
            f"there is an NVIDIA driver, but torch {reason}: check CUDA_VISIBLE_DEVICES and the build of torch"
        )
    return warnings


def _check_threads(facts: Facts) -> list[str]:
    threads, warnings = facts["threads"], []
    usable = threads["usable"]
    for name in ("numba", "torch", *THREAD_VARIABLES):
        count = str(threads[name])
        if count.isdecimal() and int(count) > usable:
            warnings.append(
                f"{name} uses {count} threads on {usable} usable cores, which is very slow: "
                f"set {name if name in THREAD_VARIABLES else 'OMP_NUM_THREADS'}={usable}"
            )
    if not threads["numba_jit"]:
        warnings.append(
            "numba's JIT is switched off, so searches run as plain Python, very slowly: unset NUMBA_DISABLE_JIT"
        )
    return warnings


def _check_memory(facts: Facts) -> list[str]:
    available = facts["memory"]["available"]
    if available is None or available >= SCARCE_BYTES:
        return []
    return [f"{_size(available)} of memory is left: pack with --memory 256M, or end other programs"]


def _check_folders(facts: Facts) -> list[str]:
    warnings = []
    for name, folder in facts["folders"].items():
        if folder["path"] is None:
            continue
        if name == "RELENS_DATA":
            if not folder["exists"]:
                warnings.append(
                    f"RELENS_DATA is {folder['path']}, which is not a folder: set it to the data sets' parent"
                )
        elif not folder["writable"]:
            remedy = "set RELENS_HOME to a folder that is" if name == "cache" else f"set {name} to one that is"
            warnings.append(f"{folder['path']} is not writable: {remedy}")
        elif folder["free"] < SCARCE_BYTES:
            warnings.append(f"{_size(folder['free'])} of disk space is left at {folder['path']}: data sets may not fit")
    return warnings


CHECKS: tuple[Callable[[Facts], list[str]], ...] = (_check_devices, _check_threads, _check_memory, _check_folders)


def _text(facts: Facts) -> str:
    """Return the facts as text."""
    sections = {
        "versions": facts["versions"],
        "extras": {name: _extra_words(extra) for name, extra in facts["extras"].items()},
        "devices": _device_words(facts["devices"]),
        "threads": _thread_words(facts["threads"]),
        "memory": {name: "unknown" if size is None else _size(size) for name, size in facts["memory"].items()},
        "folders": {name: _folder_words(folder) for name, folder in facts["folders"].items()},
    }
    parts = [_section(title, lines) for title, lines in sections.items()]
    warnings = [f"  - {text}" for text in facts["warnings"]] or ["  none"]
    return "\n\n".join([*parts, "\n".join(["warnings", *warnings])])


def _section(title: str, lines: Mapping[str, object]) -> str:
    width = max(map(len, lines))
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in lines.items())])


def _extra_words(extra: Facts) -> str:
    if extra["install"]:
        missing = ", ".join(package for package, found in extra["packages"].items() if found is None)
        return f"missing {missing}: {extra['install']}"
    return ", ".join(f"{package} {found}" for package, found in extra["packages"].items())


def _device_words(devices: Facts) -> dict[str, str]:
    words = {"cpu": platform.processor() or platform.machine()}
    for number, device in enumerate(devices["cuda"]):
        if "problem" in device:
            words[f"cuda:{number}"] = "does not respond"
        else:
            memory = f"{_size(device['free'])} of {_size(device['total'])} free"
            words[f"cuda:{number}"] = f"{device['name']}, capability {device['capability']}, {memory}"
    if not devices["cuda"]:
        words["cuda"] = "none"
    words["triton"] = devices["triton"] or "missing"
    return words


def _thread_words(threads: Facts) -> dict[str, str]:
    words = {
        "cores": f"{threads['cores']}, of which this process may use {threads['usable']}",
        "numba": f"{threads['numba']} threads" + ("" if threads["numba_jit"] else ", JIT switched off"),
        "torch": "missing" if threads["torch"] is None else f"{threads['torch']} threads",
    }
    return words | {name: threads[name] or "not set" for name in THREAD_VARIABLES}


def _folder_words(folder: Facts) -> str:
    if folder["path"] is None:
        return "not set"
    if not folder["exists"]:
        return (
            f"{folder['path']} (does not exist)" if not folder["writable"] else f"{folder['path']} (does not exist yet)"
        )
    holds = ", ".join(folder["holds"]) or "no folders"
    rights = "" if folder["writable"] else ", read-only"
    return f"{folder['path']}: {_size(folder['bytes'])} in {holds}{rights}; {_size(folder['free'])} free"


def _size(n_bytes: float) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("B", "KB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"
