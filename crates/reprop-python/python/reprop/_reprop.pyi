"""The compiled part: schedules, plans and the store."""

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import final

from typing_extensions import Buffer

__all__ = [
    "Action",
    "ActionIterator",
    "CorruptError",
    "Plan",
    "Schedule",
    "ScheduleError",
    "Slot",
    "Store",
    "StoreError",
    "StoreFullError",
    "quick_async",
]

class ScheduleError(ValueError):
    """A schedule or plan that cannot be made."""

class StoreError(Exception):
    """A snapshot that could not be stored or fetched."""

class CorruptError(StoreError):
    """A snapshot that is not what was written."""

class StoreFullError(StoreError):
    """No room for a snapshot."""

@final
class Slot:
    """A place for one snapshot: tier 0 is memory, tier 1 the disk."""

    __match_args__ = ("tier", "index")
    def __new__(cls, tier: int, index: int) -> Slot: ...
    @property
    def tier(self) -> int: ...
    @property
    def index(self) -> int: ...
    def __hash__(self) -> int: ...

class Action:
    """One instruction to whoever runs the chain. `str(action)` says it in words."""

    def __hash__(self) -> int: ...

    @final
    class Forward(Action):
        """Run steps `start .. stop`."""

        __match_args__ = ("start", "stop")
        def __new__(cls, start: int, stop: int) -> Action.Forward: ...
        @property
        def start(self) -> int: ...
        @property
        def stop(self) -> int: ...

    @final
    class Save(Action):
        """Save the working state."""

        __match_args__ = ("step", "slot")
        def __new__(cls, step: int, slot: Slot) -> Action.Save: ...
        @property
        def step(self) -> int: ...
        @property
        def slot(self) -> Slot: ...

    @final
    class Load(Action):
        """Make a snapshot the working state."""

        __match_args__ = ("step", "slot", "keep")
        def __new__(cls, step: int, slot: Slot, keep: bool) -> Action.Load: ...
        @property
        def step(self) -> int: ...
        @property
        def slot(self) -> Slot: ...
        @property
        def keep(self) -> bool: ...

    @final
    class Copy(Action):
        """Begin to copy a snapshot, beside the computation."""

        __match_args__ = ("step", "source", "target", "keep")
        def __new__(cls, step: int, source: Slot, target: Slot, keep: bool) -> Action.Copy: ...
        @property
        def step(self) -> int: ...
        @property
        def source(self) -> Slot: ...
        @property
        def target(self) -> Slot: ...
        @property
        def keep(self) -> bool: ...

    @final
    class Free(Action):
        """Forget a snapshot."""

        __match_args__ = ("step", "slot")
        def __new__(cls, step: int, slot: Slot) -> Action.Free: ...
        @property
        def step(self) -> int: ...
        @property
        def slot(self) -> Slot: ...

    @final
    class Wait(Action):
        """Wait for the transfers of a slot."""

        __match_args__ = ("step", "slot")
        def __new__(cls, step: int, slot: Slot) -> Action.Wait: ...
        @property
        def step(self) -> int: ...
        @property
        def slot(self) -> Slot: ...

    @final
    class Record(Action):
        """Run a step and keep what its reversal needs."""

        __match_args__ = ("step", "slot")
        def __new__(cls, step: int, slot: Slot) -> Action.Record: ...
        @property
        def step(self) -> int: ...
        @property
        def slot(self) -> Slot: ...

    @final
    class Reverse(Action):
        """Run a step from the working state, and reverse it."""

        __match_args__ = ("step",)
        def __new__(cls, step: int) -> Action.Reverse: ...
        @property
        def step(self) -> int: ...

    @final
    class ReverseRecorded(Action):
        """Reverse a step that was recorded."""

        __match_args__ = ("step", "slot")
        def __new__(cls, step: int, slot: Slot) -> Action.ReverseRecorded: ...
        @property
        def step(self) -> int: ...
        @property
        def slot(self) -> Slot: ...

@final
class ActionIterator:
    """The actions of a schedule or a plan, one after the other."""

    def __iter__(self) -> ActionIterator: ...
    def __next__(self) -> Action: ...

@final
class Schedule:
    """A snapshot schedule: iterate for its actions; as often as you like."""

    def __new__(
        cls,
        method: str,
        steps: int,
        slots: int | None = None,
        disk_slots: int | None = None,
        write: float | None = None,
        read: float | None = None,
        forward: float = 1.0,
        backward: float = 1.0,
        separate_channels: bool = False,
    ) -> Schedule: ...
    def __iter__(self) -> Iterator[Action]: ...
    @property
    def method(self) -> str: ...
    @property
    def steps(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def advances(self) -> int: ...
    @property
    def forward_evaluations(self) -> int: ...
    @property
    def snapshots_written(self) -> int: ...
    @property
    def disk_writes(self) -> int: ...
    @property
    def disk_reads(self) -> int: ...
    @property
    def makespan(self) -> float: ...
    @property
    def lower_bound(self) -> float: ...
    @property
    def peak_slots(self) -> int: ...
    def draw(self, kind: str = "svg", columns: int = 100) -> str: ...
    def _repr_svg_(self) -> str | None: ...

def quick_async(
    steps: int, slots: int, write: float, read: float, forward: float, backward: float
) -> ActionIterator:
    """The actions of an asynchronous schedule that is made at once, without a search."""

@final
class Plan:
    """The fastest plan for a chain of unequal steps in a number of bytes."""

    def __new__(
        cls,
        steps: Sequence[tuple[float, float, int, int]],
        budget: int,
        transfers: Sequence[tuple[float, float]] | None = None,
    ) -> Plan: ...
    def __iter__(self) -> Iterator[Action]: ...
    def __len__(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def budget(self) -> int: ...
    @property
    def makespan(self) -> float: ...
    @property
    def peak_bytes(self) -> int: ...
    @property
    def forward_evaluations(self) -> int: ...
    def draw(self, kind: str = "svg", columns: int = 100) -> str: ...
    def _repr_svg_(self) -> str | None: ...

@final
class Store:
    """Snapshots in a folder, written and read by threads of their own, checked on every read.

    It belongs to the process that made it: every call in a fork of it raises `StoreError`.
    """

    def __new__(
        cls,
        folder: str | PathLike[str],
        *,
        codec: str = "none",
        budget: int | None = None,
        queue: int = 2,
        read_ahead: int = 2,
    ) -> Store: ...
    def put(self, step: int, buffers: Sequence[Buffer]) -> None: ...
    def wait(self, step: int) -> None: ...
    def prefetch(self, step: int) -> bool: ...
    def get(self, step: int, buffers: Sequence[Buffer]) -> None: ...
    def remove(self, step: int) -> None: ...
    def steps(self) -> list[int]: ...
    def stats(self) -> dict[str, int | float]: ...
    def close(self, discard: bool = False) -> None: ...
