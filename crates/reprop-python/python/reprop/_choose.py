"""Which schedule a run follows, and how many slots fit its budget."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from . import _bytes
from ._engine import IN_FLIGHT, Engine, M, Report, open_store
from ._reprop import Action, Schedule, Store, quick_async
from ._schedule import METHODS, ON_DISK

WORKING = 2
"""States outside all slots: the working state, and the next one while a step runs."""

SEARCHED = 64
"""The longest chain whose asynchronous plan is searched for. The search would take longer than it saves."""

Costs = tuple[float, float, float, float]
"""The times of a forward step, a backward step, a write and a read, in any one unit."""


@dataclass(frozen=True)
class Sizes:
    """Bytes of a state, and of what one step's reversal holds."""

    state: int
    tape: int


@dataclass(frozen=True)
class Options:
    """What the user asks of a run."""

    strategy: str
    memory: int | str | None
    slots: int | None
    disk_slots: int | None
    store: str | PathLike[str] | None
    codec: str
    costs: Costs | None
    on_report: Callable[[Report], None] | None

    def engine(self, machine: M, steps: int, sizes: Sizes, times: Callable[[], tuple[float, float]]) -> Engine[M]:
        """An engine at the start of the chain. `times` measures a forward and a backward step, if they matter."""
        method = strategy_of(self.strategy, self.store)
        slots = slots_of(method, steps, self.slots, self.memory, sizes)
        if method not in ON_DISK:
            return Engine(method, steps, slots, iter(Schedule(method, steps, slots)), machine, None)
        assert self.store is not None
        store = open_store(self.store, self.codec)
        try:
            costs = self.costs or (*times(), *timed(store, machine.buffers(machine.snapshot())))
            forward, backward, write, read = costs
            actions: Iterator[Action]
            disk_slots = self.disk_slots
            if method in ("multistage", "h-revolve") and disk_slots is None:
                disk_slots = steps
            if method == "async" and steps > SEARCHED:
                actions = quick_async(steps, slots, write, read, forward, backward)
            else:
                actions = iter(Schedule(method, steps, slots, disk_slots, write, read, forward, backward))
            return Engine(method, steps, slots, actions, machine, store)
        except BaseException:
            store.close(discard=True)
            raise


def strategy_of(name: str, store: object) -> str:
    """The method's name, checked."""
    if name == "auto":
        return "revolve" if store is None else "async"
    if name not in METHODS:
        raise ValueError(f"unknown strategy {name!r}: choose auto or one of {', '.join(METHODS)}")
    if name in ON_DISK and store is None:
        raise ValueError(f"strategy {name!r} keeps snapshots on disk: give a folder, store=")
    return name


def slots_of(method: str, steps: int, slots: int | None, memory: int | str | None, sizes: Sizes) -> int:
    """The memory slots given, or as many as the budget has room for beside what runs."""
    budget = None if memory is None else _bytes.parse(memory)
    tapes = {"stored": steps, "mixed": 0}.get(method, 1)
    beside = WORKING * sizes.state + tapes * sizes.tape
    if method in ON_DISK:
        beside += IN_FLIGHT * sizes.state
    # A slot of `mixed` holds a state or a step's saved tensors.
    slot = max(sizes.state, sizes.tape) if method == "mixed" else max(1, sizes.state)
    least = beside + (0 if method == "stored" else slot)
    if budget is not None and budget < least:
        raise ValueError(
            f"memory={budget} bytes is too little for {method!r} over {steps} steps: it needs {least} "
            f"(a state has {sizes.state} bytes, a step's saved tensors {sizes.tape})"
        )
    if method == "stored":
        return steps
    if slots is not None:
        needed = beside + slots * slot
        if budget is not None and needed > budget:
            raise ValueError(f"{slots} slots need {needed} bytes, and memory= is {budget}: give one of both")
        return slots
    if budget is None:
        raise ValueError(f'strategy {method!r} needs a bound: give memory="2GiB" or slots=')
    return min(steps, (budget - beside) // slot)


def timed(store: Store, buffers: Sequence[Any]) -> tuple[float, float]:
    """The seconds of a write and of a read, by doing both with this state; the first time files are made, so it does not
    count alone."""
    write = read = float("inf")
    for _ in range(2):
        start = time.perf_counter()
        store.put(0, buffers)
        store.wait(0)
        middle = time.perf_counter()
        store.prefetch(0)
        store.get(0, buffers)
        end = time.perf_counter()
        store.remove(0)
        write, read = min(write, middle - start), min(read, end - middle)
    return write, read
