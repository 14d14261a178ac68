"""Work spread over processes, each of which opens its tools once; none of them can take the others down.

`concurrent.futures` gives the whole pool up when one of its processes is killed, and
`multiprocessing.Pool` waits forever for what that one had to do.  Here it is one item that is lost.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

Tools = TypeVar("Tools")
Item = TypeVar("Item")
Result = TypeVar("Result")
#: Sends something about the item at hand to whoever waits for it.
Tell = Callable[[Any], None]


@dataclass(frozen=True)
class News(Generic[Item]):
    """What `work` told about an item before it was done."""

    item: Item
    content: Any


@dataclass(frozen=True)
class Done(Generic[Item, Result]):
    """The result of an item."""

    item: Item
    result: Result


@dataclass(frozen=True)
class Died(Generic[Item]):
    """The process that worked on an item ended; `cause` in a few words."""

    item: Item
    cause: str


@dataclass
class _Worker(Generic[Item]):
    process: SpawnProcess
    item: Item


def spread(
    items: Sequence[Item],
    jobs: int,
    open_tools: Callable[[], Tools],
    work: Callable[[Tools, Item, Tell], Result],
) -> Generator[News[Item] | Done[Item, Result] | Died[Item], None, None]:
    """Work on the items in `jobs` processes; yields what happens, in the order in which it does.

    open_tools, work: what a process calls once, and for each item; both are pickled, as are items and
    results.  An exception of either of them is raised here.  When the iterator is closed, or an
    exception leaves it, the processes are killed at once: use `contextlib.closing`.

    The second process starts when the first item is over.  What the first one has compiled is in the
    compiler's cache by then; several that fill it at once would do the same work twice.
    """
    waiting = deque(items)
    limit = 1
    workers: dict[Connection, _Worker[Item]] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < limit:
                connection, process = _start(open_tools, work)
                workers[connection] = worker = _Worker(process, waiting.popleft())
                _send(connection, worker.item)
            ready = wait(list(workers))
            for connection in [c for c in workers if c in ready]:
                worker = workers[connection]
                try:
                    kind, content = connection.recv()
                except (EOFError, OSError):
                    limit = jobs
                    del workers[connection]
                    worker.process.join()
                    yield Died(worker.item, _cause(worker.process.exitcode))
                    continue
                match kind:
                    case "news":
                        yield News(worker.item, content)
                    case "error":
                        raise content
                    case _:
                        limit = jobs
                        finished = worker.item
                        if waiting:
                            worker.item = waiting.popleft()
                            _send(connection, worker.item)
                        else:
                            del workers[connection]
                            worker.process.kill()  # it has nothing to save, and tearing torch down takes time
                        yield Done(finished, content)
    finally:
        for worker in workers.values():
            worker.process.kill()
        for worker in workers.values():
            worker.process.join()


def _start(open_tools: Callable[[], Any], work: Callable[..., Any]) -> tuple[Connection, SpawnProcess]:
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(there, open_tools, work), daemon=True)
    with _interrupts_held():
        process.start()
    there.close()  # else its end would not be noticed here
    return here, process


def _send(connection: Connection, item: Any) -> None:
    """Hand an item over.  That its process is gone shows when the result is waited for."""
    with suppress(OSError):
        connection.send(item)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process that starts now never sees ctrl+c, which is for its parent to act upon."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # here: starting it lets signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(parent: Connection, open_tools: Callable[[], Tools], work: Callable[..., Any]) -> None:
    """The life of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        tools = open_tools()
        while True:
            item = parent.recv()
            parent.send(("done", work(tools, item, lambda content: parent.send(("news", content)))))
    except (EOFError, BrokenPipeError):
        return  # nobody waits any more
    except Exception as error:
        parent.send(("error", error))


def _cause(status: int | None) -> str:
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"
