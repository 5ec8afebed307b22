"""Connections to running Dask or Ray clusters, which run a function over tasks and survive lost workers."""

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from logging import ERROR
from typing import Any, Literal, Protocol, TypeVar, get_args

from relens import __version__
from relens.errors import InputError, MissingExtraError, RelensError

T = TypeVar("T")
R = TypeVar("R")

Backend = Literal["dask", "ray"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
RETRIES = 5
"""How often Ray repeats a task whose worker is lost; Dask has its own setting."""
SECONDS_TO_CONNECT = 20


class Cluster(Protocol):
    """Machines that run a function over tasks."""

    n_workers: int

    def share(self, value: T) -> Any:
        """Return a reference to a value that is sent to each worker once; ``run`` resolves it."""
        ...

    def everywhere(self, function: Callable[..., R], *arguments: Any) -> list[R | Exception]:
        """Return the result or the exception of ``function`` on each present worker (Dask) or node (Ray)."""
        ...

    def run(self, function: Callable[..., R], shared: Any, tasks: Sequence[Any]) -> Iterator[tuple[int, R]]:
        """Yield each task's position and ``function(shared, task)`` in order of arrival; lost tasks are repeated."""
        ...


@contextmanager
def connect(backend: Backend, address: str) -> Iterator[Cluster]:
    """Connect to a running cluster, check that its workers have this version of relens, and disconnect in the end.

    Args:
        backend: the engine of the cluster.
        address: of its scheduler (Dask) or head node (Ray), such as ``tcp://10.0.0.1:8786`` or ``10.0.0.1:6379``.
    """
    openers = {"dask": _dask, "ray": _ray}
    with openers[backend](address) as cluster:
        found = {str(answer) for answer in cluster.everywhere(_version_function())}
        if not found:
            raise InputError(f"the {backend} cluster at {address} has no workers with a core: start some")
        if found != {__version__}:
            raise InputError(
                f"workers of the {backend} cluster at {address} have relens {', '.join(sorted(found))}, this is "
                f"{__version__}: results could differ. Install the same version everywhere."
            )
        yield cluster


def _version_function() -> Callable[[], str]:
    """Return a function that is pickled by value, not by name: a worker's relens may be too old to have it."""

    def version() -> str:
        try:
            import relens
        except ImportError:
            return "(none)"
        return relens.__version__

    return version


@contextmanager
def _dask(address: str) -> Iterator[Cluster]:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("a Dask cluster", "dask") from error
    try:
        client = Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise _unreachable("dask", address, error, "`dask scheduler` prints its address") from error
    with client:
        if not (n_workers := len(client.scheduler_info(n_workers=-1)["workers"])):
            raise InputError(f"the dask cluster at {address} has no workers: start some with `dask worker {address}`")
        yield _DaskCluster(client, n_workers)


class _DaskCluster:
    def __init__(self, client: Any, n_workers: int) -> None:
        self.client, self.n_workers = client, n_workers

    def share(self, value: T) -> Any:
        return self.client.scatter(value, broadcast=True, hash=False)

    def everywhere(self, function: Callable[..., R], *arguments: Any) -> list[R | Exception]:
        return list(self.client.run(function, *arguments, on_error="return").values())

    def run(self, function: Callable[..., R], shared: Any, tasks: Sequence[Any]) -> Iterator[tuple[int, R]]:
        from distributed import as_completed

        futures = {self.client.submit(function, shared, task, pure=False): at for at, task in enumerate(tasks)}
        for future in as_completed(list(futures), loop=self.client.loop):
            yield futures[future], _result(future.result)
            future.release()


@contextmanager
def _ray(address: str) -> Iterator[Cluster]:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("a Ray cluster", "ray") from error
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise InputError(f"the address is {address!r}: expected host:port of a Ray head node, such as 10.0.0.1:6379")
    try:
        # Without a listener, Ray itself would retry for minutes.
        socket.create_connection((host, int(port)), timeout=SECONDS_TO_CONNECT).close()
        ray.init(address=address, logging_level=ERROR, log_to_driver=False, configure_logging=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreachable("ray", address, error, "`ray start --head` prints its address") from error
    try:
        yield _RayCluster(ray)
    finally:
        ray.shutdown()


class _RayCluster:
    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.n_workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def share(self, value: T) -> Any:
        return self.ray.put(value)

    def everywhere(self, function: Callable[..., R], *arguments: Any) -> list[R | Exception]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node["NodeID"] for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        asked = [
            self.ray.remote(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))(
                function
            ).remote(*arguments)
            for node in nodes
        ]
        return [_answer(partial(self.ray.get, answer)) for answer in asked]

    def run(self, function: Callable[..., R], shared: Any, tasks: Sequence[Any]) -> Iterator[tuple[int, R]]:
        remote = self.ray.remote(num_cpus=1, max_retries=RETRIES)(function)
        waiting = {remote.remote(shared, task): at for at, task in enumerate(tasks)}
        while waiting:
            (done,), _ = self.ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(done), _result(partial(self.ray.get, done))


def _answer(get: Callable[[], R]) -> R | Exception:
    try:
        return get()
    except Exception as error:
        return error


def _result(get: Callable[[], R]) -> R:
    """Return a result. Re-raise relens's own errors unchanged, and explain those of the engine."""
    try:
        return get()
    except Exception as error:
        cause = getattr(error, "cause", error)  # Ray wraps an error of ours in a subclass whose text is a traceback
        if isinstance(cause, RelensError):
            raise cause from None
        raise RelensError(
            f"the cluster could not finish a part of the search ({type(error).__name__}: {error}). Results so far are "
            f"kept: run the same search again to resume."
        ) from error


def _unreachable(backend: str, address: str, error: Exception, hint: str) -> InputError:
    return InputError(
        f"no {backend} cluster can be reached at {address!r} ({type(error).__name__}: {error}). Is it running, and is "
        f"this its address? {hint}."
    )
