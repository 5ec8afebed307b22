"""Connections to running Dask or Ray clusters, which run functions on tasks and survive lost workers."""

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Any, Literal, Protocol, TypeVar, get_args

from relens import __version__
from relens.errors import ClusterError, InputError, MissingExtraError, RelensError

T = TypeVar("T")
R = TypeVar("R")
Handle = Any
"""A task that was given to a cluster."""

Backend = Literal["dask", "ray"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
RETRIES = 5
"""How often Ray repeats a task whose worker is lost; Dask has its own setting."""
SECONDS_TO_CONNECT = 20
SECONDS_TO_ANSWER = 40
"""Limit of an answer that takes no work. Ray ends this process a minute after its head node was lost."""
SECONDS_TO_LEAVE = 20
SECONDS_BETWEEN_PROBES = 2
LONGEST_TEXT = 300
"""Characters that are shown of an engine's error, which may hold a whole traceback."""


_hanging = Event()
"""Set when Ray did not disconnect."""


class Cluster(Protocol):
    """Machines that run functions on tasks. All methods raise ``ClusterError`` if the cluster is lost."""

    n_workers: int

    def share(self, value: T) -> Any:
        """Return a reference to a value that is sent to each worker once; ``submit`` resolves it."""
        ...

    def everywhere(self, function: Callable[..., R], *arguments: Any) -> list[R | Exception]:
        """Return the result or the exception of ``function`` on each present worker (Dask) or node (Ray)."""
        ...

    def submit(self, function: Callable[..., R], shared: Any, task: Any) -> Handle:
        """Begin ``function(shared, task)`` on a worker; if that is lost, on another one."""
        ...

    def wait(self, handles: Sequence[Handle], seconds: float) -> Handle | None:
        """Return a submitted task that is finished and was not returned before; None after ``seconds`` without one."""
        ...

    def result(self, handle: Handle) -> Any:
        """Return the result of a finished task. Raise TimeoutError if its worker keeps it and does not answer."""
        ...

    def suspect(self, handles: Sequence[Handle]) -> bool:
        """Give no more tasks to the workers of some tasks, which hang; say whether other workers are free."""
        ...

    def drop(self, handle: Handle) -> None:
        """Forget a task; it may still run."""
        ...


@contextmanager
def connect(backend: Backend, address: str) -> Iterator[Cluster]:
    """Connect to a running cluster, check that its workers have this version of relens, and disconnect in the end.

    A worker that does not answer is no reason to refuse the cluster: each part checks the version again.

    Args:
        backend: the engine of the cluster.
        address: of its scheduler (Dask) or head node (Ray), such as ``tcp://10.0.0.1:8786`` or ``10.0.0.1:6379``.
    """
    openers = {"dask": _dask, "ray": _ray}
    with openers[backend](address) as cluster:
        answers = cluster.everywhere(_version_function())
        if not answers:
            raise InputError(f"the {backend} cluster at {address} has no workers with a core: start some")
        found = {answer for answer in answers if isinstance(answer, str)}
        if not found:
            raise ClusterError(
                f"no worker of the {backend} cluster at {address} answers ({_in_a_line(answers[0])}): start new ones, "
                f"then run the same command again."
            )
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


def within(
    seconds: float, function: Callable[..., R], *arguments: Any, meanwhile: Callable[[], None] | None = None
) -> R:
    """Return a function's result; raise TimeoutError if it hangs, and leave it to a daemon thread.

    Args:
        seconds: the limit.
        function: what to call.
        *arguments: of the function.
        meanwhile: called every few seconds; its error ends the wait, too.
    """
    answers: SimpleQueue[tuple[R | None, BaseException | None]] = SimpleQueue()

    def call() -> None:
        try:
            answers.put((function(*arguments), None))
        except BaseException as error:
            answers.put((None, error))

    Thread(target=call, daemon=True).start()
    end = monotonic() + seconds
    while True:
        left = max(0.0, end - monotonic())
        with suppress(Empty):
            result, error = answers.get(timeout=left if meanwhile is None else min(left, SECONDS_BETWEEN_PROBES))
            break
        if meanwhile is not None:
            meanwhile()
        if not left:
            raise TimeoutError(f"no answer for {seconds:.0f} s")
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def hangs() -> bool:
    """Say whether an engine did not disconnect; its library would hang or crash at the end of the process, too."""
    return _hanging.is_set()


@contextmanager
def _dask(address: str) -> Iterator[Cluster]:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("a Dask cluster", "dask") from error
    with _without_logs("distributed", "tornado", "asyncio"):
        try:
            client = Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise _unreachable("dask", address, error, "`dask scheduler` prints its address") from error
        try:
            if not (n_workers := len(client.scheduler_info(n_workers=-1)["workers"])):
                raise InputError(f"the dask cluster at {address} has no workers: start some: `dask worker {address}`")
            yield _DaskCluster(client, address, n_workers)
        finally:
            with suppress(Exception):  # a lost scheduler does not take part
                within(SECONDS_TO_LEAVE, client.close, SECONDS_TO_LEAVE)


@contextmanager
def _without_logs(*packages: str) -> Iterator[None]:
    """Switch the logs of packages off: they repeat with tracebacks what our errors say in a sentence."""
    known = [logging.getLogger(name) for name in [*packages, *logging.root.manager.loggerDict]]
    muted = {logger: logger.level for logger in known if logger.name.partition(".")[0] in packages}
    for logger in muted:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in muted.items():
            logger.setLevel(level)


class _DaskCluster:
    def __init__(self, client: Any, address: str, n_workers: int) -> None:
        self.client, self.address, self.n_workers = client, address, n_workers
        self._finished: SimpleQueue[Handle] = SimpleQueue()
        self._hanging: set[str] = set()
        self._allowed: list[str] | None = None

    def share(self, value: T) -> Any:
        return self._asked(partial(self.client.scatter, broadcast=True, hash=False), value)

    def everywhere(self, function: Callable[..., R], *arguments: Any) -> list[R | Exception]:
        answers = self._asked(partial(self.client.run, on_error="return"), function, *arguments)
        return list(answers.values())

    def submit(self, function: Callable[..., R], shared: Any, task: Any) -> Handle:
        handle = self.client.submit(function, shared, task, pure=False, workers=self._allowed)
        handle.add_done_callback(self._finished.put)
        return handle

    def wait(self, handles: Sequence[Handle], seconds: float) -> Handle | None:
        del handles
        with suppress(Empty):
            return self._finished.get(timeout=seconds)
        return None

    def result(self, handle: Handle) -> Any:
        # After a loss, the client cancels all tasks and tries to connect again.
        if handle.status == "cancelled" or self.client.status != "running":
            raise _lost("dask", "scheduler", self.address, "it ended, or the network did")
        return _result(partial(handle.result, timeout=SECONDS_TO_ANSWER))

    def suspect(self, handles: Sequence[Handle]) -> bool:
        keys = {handle.key for handle in handles}
        processing = self._asked(self.client.processing)
        self._hanging |= {worker for worker, tasks in processing.items() if not keys.isdisjoint(tasks)}
        kept = self._asked(self.client.who_has, list(handles))
        self._hanging |= {worker for workers in kept.values() for worker in workers}
        self._allowed = sorted(set(processing) - self._hanging) or None
        return self._allowed is not None

    def drop(self, handle: Handle) -> None:
        handle.release()

    def _asked(self, function: Callable[..., R], *arguments: Any) -> R:
        """Return the scheduler's answer, which may need an answer of each worker."""
        try:
            return within(SECONDS_TO_ANSWER, function, *arguments)
        except (OSError, TimeoutError) as error:
            raise _lost("dask", "scheduler", self.address, _in_a_line(error)) from error


@contextmanager
def _ray(address: str) -> Iterator[Cluster]:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("a Ray cluster", "ray") from error
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise InputError(f"the address is {address!r}: expected host:port of a Ray head node, such as 10.0.0.1:6379")
    head = (host, int(port))
    try:
        # Without a listener, Ray itself would retry for minutes.
        socket.create_connection(head, timeout=SECONDS_TO_CONNECT).close()
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False, configure_logging=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise _unreachable("ray", address, error, "`ray start --head` prints its address") from error
    try:
        yield _RayCluster(ray, head)
    finally:
        try:
            within(SECONDS_TO_LEAVE, ray.shutdown)
        except TimeoutError:  # a head node that hangs does not take part
            _hanging.set()


class _RayCluster:
    def __init__(self, ray: Any, head: tuple[str, int]) -> None:
        self.ray, self.head = ray, head
        self._sent: dict[Callable[..., Any], Any] = {}
        self.n_workers = max(1, int(self._asked(ray.cluster_resources).get("CPU", 1)))

    def share(self, value: T) -> Any:
        return self.ray.put(value)

    def everywhere(self, function: Callable[..., R], *arguments: Any) -> list[R | Exception]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [
            node["NodeID"] for node in self._asked(self.ray.nodes) if node["Alive"] and node["Resources"].get("CPU")
        ]
        asked = [
            self.ray.remote(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))(
                function
            ).remote(*arguments)
            for node in nodes
        ]
        if asked:
            self._asked(partial(self.ray.wait, asked, num_returns=len(asked), timeout=SECONDS_TO_ANSWER / 2))
        return [_answer(partial(self.ray.get, answer, timeout=0)) for answer in asked]

    def submit(self, function: Callable[..., R], shared: Any, task: Any) -> Handle:
        if function not in self._sent:  # each of these makes Ray send the function again
            self._sent[function] = self.ray.remote(num_cpus=1, max_retries=RETRIES)(function)
        return self._asked(partial(self._sent[function].remote, shared, task))

    def wait(self, handles: Sequence[Handle], seconds: float) -> Handle | None:
        try:
            wait = partial(self.ray.wait, handles, num_returns=1, timeout=seconds)
            done, _ = within(seconds + SECONDS_TO_ANSWER, wait, meanwhile=self._probe)
        except TimeoutError:
            return None
        return done[0] if done else None

    def result(self, handle: Handle) -> Any:
        get = partial(self.ray.get, handle, timeout=SECONDS_TO_ANSWER)
        return _result(partial(within, SECONDS_TO_ANSWER, get, meanwhile=self._probe))

    def suspect(self, handles: Sequence[Handle]) -> bool:
        del handles  # a task that hangs keeps its core: copies start on other cores
        return bool(self._asked(self.ray.available_resources).get("CPU", 0) >= 1)

    def drop(self, handle: Handle) -> None:
        self.ray.cancel(handle, force=True)

    def _probe(self) -> None:
        """Raise an error if the head node is lost. Ray itself would wait for a minute, then end this process."""
        try:
            socket.create_connection(self.head, timeout=SECONDS_TO_CONNECT).close()
        except OSError as error:
            raise self._lost(error) from error

    def _asked(self, function: Callable[[], R]) -> R:
        try:
            return within(SECONDS_TO_ANSWER, function, meanwhile=self._probe)
        except ClusterError:
            raise
        except Exception as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> ClusterError:
        return _lost("ray", "head node", ":".join(map(str, self.head)), _in_a_line(error))


def _answer(get: Callable[[], R]) -> R | Exception:
    try:
        return get()
    except Exception as error:
        return error


def _result(get: Callable[[], R]) -> R:
    """Return a result. Re-raise relens's own errors and timeouts unchanged, and explain those of the engine."""
    try:
        return get()
    except TimeoutError:
        raise
    except Exception as error:
        cause = getattr(error, "cause", error)  # Ray wraps an error of ours in a subclass whose text is a traceback
        if isinstance(cause, RelensError):
            raise cause from None
        raise ClusterError(f"the cluster could not finish a part of the work ({_in_a_line(error)}).") from error


def _in_a_line(error: object) -> str:
    """Return the type and the beginning of the text of an engine's error."""
    text = " ".join(str(error).split())
    shown = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " …"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


def _lost(backend: str, centre: str, address: str, why: str) -> ClusterError:
    return ClusterError(
        f"the {backend} cluster at {address} is lost: its {centre} does not answer any more ({why}). Start a new one."
    )


def _unreachable(backend: str, address: str, error: Exception, hint: str) -> InputError:
    return InputError(
        f"no {backend} cluster can be reached at {address!r} ({_in_a_line(error)}). Is it running, and is "
        f"this its address? {hint}."
    )
