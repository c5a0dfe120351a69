"""Obeys the actions of a schedule: a machine computes, a store keeps what leaves memory."""

import atexit
import uuid
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ._reprop import Action, Store

QUEUE = 2
"""Snapshots that wait to be written before the computation waits for the disk."""

IN_FLIGHT = QUEUE + 4
"""States that a store holds beside the slots: its queue, one being put and one being got, and a buffer a thread."""

OPEN: "weakref.WeakSet[Store]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for store in list(OPEN):
        try:
            store.close(discard=True)
        except Exception:  # a fork has nothing to close
            pass


def open_store(folder: str | PathLike[str], codec: str = "none", read_ahead: int = 4) -> Store:
    """A store of its own for one run, in a new folder below this one."""
    # The store removes the folder that it has made itself.
    own = Path(folder) / f"reprop-{uuid.uuid4().hex}"
    store = Store(own, codec=codec, queue=QUEUE, read_ahead=read_ahead)
    OPEN.add(store)
    return store


@dataclass(frozen=True)
class Report:
    """What a run did: steps evaluated, snapshots moved, and how long the computation waited for the store."""

    method: str
    steps: int
    slots: int
    forward_evaluations: int
    peak_slots: int
    disk_writes: int
    disk_reads: int
    stall_seconds: float


class Machine(Protocol):
    """What computes: one working state, and how to save, restore, run and reverse it.

    `record` gives what the reversal of a step needs; with `advance` the working state moves on, without it is not needed
    any more.
    """

    def forward(self, start: int, stop: int) -> None: ...
    def snapshot(self) -> Any: ...
    def restore(self, snapshot: Any, keep: bool) -> None: ...
    def buffers(self, snapshot: Any) -> list[Any]: ...
    def empty(self, step: int) -> Any: ...
    def filled(self, snapshot: Any) -> Any: ...
    def record(self, step: int, advance: bool) -> Any: ...
    def reverse(self, step: int, tape: Any) -> None: ...


M = TypeVar("M", bound=Machine)


class Engine(Generic[M]):
    """Runs a schedule on a machine: forward to the end, and then back.

    A memory slot holds a snapshot; or, after a copy from disk has begun, the number of the step that the store is reading
    ahead, which is in the store's memory instead of ours.
    """

    def __init__(
        self, method: str, steps: int, slots: int, actions: Iterator[Action], machine: M, store: Store | None
    ):
        self.method, self.steps, self.slots = method, steps, slots
        self.actions, self.machine, self.store = actions, machine, store
        self.memory: dict[int, Any] = {}
        self.evaluations = self.writes = self.reads = self.peak = 0
        self.stall = 0.0
        self.last: Any = None
        self.closed = False

    def forward(self) -> None:
        """Runs to the end; the last step is recorded, so the way back begins at once."""
        try:
            for action in self.actions:
                if isinstance(action, Action.Reverse):
                    self.last = self.machine.record(action.step, True)
                    self.evaluations += 1
                    return
                self.obey(action)
        except BaseException:
            self.close()
            raise

    def backward(self) -> None:
        """Reverses every step."""
        if self.closed:
            raise RuntimeError("this chain has been reversed or closed already: run it forward again")
        try:
            tape, self.last = self.last, None
            self.machine.reverse(self.steps - 1, tape)
            del tape
            for action in self.actions:
                self.obey(action)
        except BaseException:
            self.close()
            raise
        self.close()

    def obey(self, action: Action) -> None:
        machine = self.machine
        match action:
            case Action.Forward(start, stop):
                machine.forward(start, stop)
                self.evaluations += stop - start
            case Action.Save(step, slot):
                if slot.tier == 0:
                    self.keep(slot.index, machine.snapshot())
                else:
                    self.put(step, machine.snapshot())
            case Action.Load(step, slot, keep):
                self.load(step, slot.tier, slot.index, keep)
            case Action.Reverse(step):
                machine.reverse(step, machine.record(step, False))
                self.evaluations += 1
            case Action.Copy(step, source, target, keep):
                self.copy(step, source.index, target, keep)
            case Action.Free(step, slot):
                if slot.tier == 0:
                    del self.memory[slot.index]
                else:
                    self.disk().remove(step)
            case Action.Wait(step, slot):
                if slot.tier > 0:
                    self.disk().wait(step)
            case Action.Record(step, slot):
                if slot.tier > 0:
                    raise NotImplementedError("saved tensors on disk")
                self.keep(slot.index, machine.record(step, True))
                self.evaluations += 1
            case Action.ReverseRecorded(step, slot):
                machine.reverse(step, self.memory.pop(slot.index))

    def disk(self) -> Store:
        if self.store is None:
            raise ValueError(f"the schedule {self.method} leaves memory: give a folder, store=")
        return self.store

    def keep(self, index: int, snapshot: Any) -> None:
        self.memory[index] = snapshot
        self.peak = max(self.peak, len(self.memory))

    def put(self, step: int, snapshot: Any) -> None:
        self.disk().put(step, self.machine.buffers(snapshot))
        self.writes += 1

    def load(self, step: int, tier: int, index: int, keep: bool) -> None:
        if tier == 0:
            held = self.memory[index] if keep else self.memory.pop(index)
            if not isinstance(held, Fetch):
                self.machine.restore(held, keep)
                return
            snapshot = self.fetch(step, held.keep)
            if keep:
                self.memory[index] = snapshot
            self.machine.restore(snapshot, keep)
        else:
            self.machine.restore(self.fetch(step, keep), False)

    def fetch(self, step: int, keep: bool) -> Any:
        """Reads a snapshot, or takes it as read ahead."""
        store, snapshot = self.disk(), self.machine.empty(step)
        store.get(step, self.machine.buffers(snapshot))
        self.reads += 1
        if not keep:
            store.remove(step)
        return self.machine.filled(snapshot)

    def copy(self, step: int, index: int, target: Any, keep: bool) -> None:
        if target.tier > 0:
            self.put(step, self.memory[index])
            if not keep:
                del self.memory[index]
        else:
            self.disk().prefetch(step)
            self.keep(target.index, Fetch(keep))

    def close(self) -> None:
        """Forgets everything, and removes the store's files."""
        if self.closed:
            return
        self.closed = True
        self.memory.clear()
        self.last = None
        if self.store is not None:
            try:
                stats = self.store.stats()
                self.stall = float(stats["stall_put"]) + float(stats["stall_get"])
            finally:
                self.store.close(discard=True)

    def report(self) -> Report:
        return Report(
            self.method, self.steps, self.slots, self.evaluations, self.peak, self.writes, self.reads, self.stall
        )


@dataclass(frozen=True)
class Fetch:
    """In a memory slot: the store is reading it ahead; it stays on disk if `keep`."""

    keep: bool
