"""reprop's schedules in the protocol of checkpoint_schedules, for pyadjoint and its kin.

The classes have the names and arguments of theirs, so that `from reprop.adjoint import Revolve` is all that changes; and
`Schedule` passes any other of `reprop.schedule`. Needs the package checkpoint_schedules, whose actions these are.

>>> from reprop.adjoint import Revolve
>>> for action in Revolve(3, 1):
...     print(action)
Forward(0, 2, True, False, StorageType.RAM)
Forward(2, 3, False, True, StorageType.WORK)
EndForward()
Reverse(3, 2, True)
Copy(0, StorageType.RAM, StorageType.WORK)
Forward(0, 1, False, False, StorageType.NONE)
Forward(1, 2, False, True, StorageType.WORK)
Reverse(2, 1, True)
Move(0, StorageType.RAM, StorageType.WORK)
Forward(0, 1, False, True, StorageType.WORK)
Reverse(1, 0, True)
EndReverse()
"""

from collections.abc import Iterator
from typing import Any

from checkpoint_schedules import (  # type: ignore[import-untyped]
    CheckpointSchedule,
    Copy,
    EndForward,
    EndReverse,
    Forward,
    Move,
    Reverse,
    StorageType,
)

from ._reprop import Action
from ._reprop import Schedule as Plan

__all__ = [
    "Async",
    "DiskRevolve",
    "HRevolve",
    "MixedCheckpointSchedule",
    "MultistageCheckpointSchedule",
    "PeriodicDiskRevolve",
    "Revolve",
    "Schedule",
]

TIERS = (StorageType.RAM, StorageType.DISK)


class Schedule(CheckpointSchedule):
    """Any schedule of ours as one of theirs. `tiers` says what their storage of our memory and of our disk is.

    Their forward says at once where it goes and whether the state it starts from is stored, ours says so in two actions:
    a state that is saved waits for the forward that leaves it, and so do transfers that begin in between. A transfer beside
    the computation is told once, where it begins: their protocol has no other moment.
    """

    def __init__(self, plan: Plan, tiers: tuple[StorageType, ...] = TIERS):
        super().__init__(plan.steps)
        self._plan, self._tiers, self._exhausted = plan, tiers, False
        self._storages = {tiers[slot.tier] for action in plan if (slot := getattr(action, "slot", None)) is not None}

    def uses_storage_type(self, storage_type: StorageType) -> bool:
        """Whether anything is kept there."""
        return storage_type in self._storages

    @property
    def is_exhausted(self) -> bool:
        """Whether the schedule is at its end; it goes back once."""
        return self._exhausted

    def _iterator(self) -> Iterator[Any]:
        saved: StorageType | None = None
        later: list[Any] = []
        for action in merged(self._plan):
            match action:
                case Action.Save(_, slot):
                    saved = self._tiers[slot.tier]
                case Action.Forward(start, stop):
                    self._n = stop
                    yield Forward(start, stop, saved is not None, False, saved or StorageType.NONE)
                    yield from later
                    saved, later = None, []
                case Action.Record(step, slot):
                    self._n = step + 1
                    yield Forward(step, step + 1, False, True, self._tiers[slot.tier])
                case Action.Load(step, slot, keep):
                    self._n = step
                    yield (Copy if keep else Move)(step, self._tiers[slot.tier], StorageType.WORK)
                case Action.Copy(step, source, target, keep):
                    transfer = (Copy if keep else Move)(step, self._tiers[source.tier], self._tiers[target.tier])
                    if saved is None:
                        yield transfer
                    else:
                        later.append(transfer)
                case Action.Free(step, slot):
                    if saved is None:
                        yield Move(step, self._tiers[slot.tier], StorageType.NONE)
                    else:
                        later.append(Move(step, self._tiers[slot.tier], StorageType.NONE))
                case Action.Reverse(step):
                    self._n = step + 1
                    yield Forward(step, step + 1, False, True, StorageType.WORK)
                    yield from self._back(step)
                case Action.ReverseRecorded(step, slot):
                    yield Move(step, self._tiers[slot.tier], StorageType.WORK)
                    yield from self._back(step)
        self._exhausted = True
        yield EndReverse()

    def _back(self, step: int) -> Iterator[Any]:
        if self._r == 0:
            yield EndForward()
        self._r += 1
        yield Reverse(step + 1, step, True)


def merged(plan: Plan) -> Iterator[Action]:
    """The same in fewer actions: forwards that only a wait parts are one, so that a snapshot holds what its whole stretch
    needs; and a state that is taken out and saved again where it was, stays there."""
    before: Action | None = None
    for action in plan:
        match before, action:
            case _, Action.Wait():
                continue
            case Action.Forward(start, _), Action.Forward(_, stop):
                before = Action.Forward(start, stop)
                continue
            case Action.Load(step, slot, False), Action.Save(again, place) if (step, slot) == (again, place):
                before = Action.Load(step, slot, True)
                continue
        if before is not None:
            yield before
        before = action
    if before is not None:
        yield before


class Revolve(Schedule):
    """Revolve in memory."""

    def __init__(
        self, max_n: int, snapshots_in_ram: int, uf: float = 1, ub: float = 1, wd: float = 2, rd: float = 2
    ):
        super().__init__(Plan("revolve", max_n, snapshots_in_ram))


class MultistageCheckpointSchedule(Schedule):
    """Revolve over memory and disk, the states that are fetched most in memory."""

    def __init__(self, max_n: int, snapshots_in_ram: int, snapshots_on_disk: int, *, trajectory: str = "maximum"):
        if snapshots_in_ram == 0:
            super().__init__(Plan("revolve", max_n, snapshots_on_disk), (StorageType.DISK,))
        elif snapshots_on_disk == 0:
            super().__init__(Plan("revolve", max_n, snapshots_in_ram))
        else:
            super().__init__(Plan("multistage", max_n, snapshots_in_ram, snapshots_on_disk, 1.0))


class MixedCheckpointSchedule(Schedule):
    """States or steps' dependencies, whichever is better."""

    def __init__(self, max_n: int, snapshots: int, *, storage: StorageType = StorageType.DISK):
        super().__init__(Plan("mixed", max_n, snapshots), (storage,))


class DiskRevolve(Schedule):
    """Memory, and a disk without bound."""

    def __init__(
        self, max_n: int, snapshots_in_ram: int, uf: float = 1, ub: float = 1, wd: float = 2, rd: float = 2
    ):
        super().__init__(Plan("disk-revolve", max_n, snapshots_in_ram, None, wd, rd, uf, ub))


class PeriodicDiskRevolve(Schedule):
    """Memory, and a disk that is written at equal distances."""

    def __init__(
        self, max_n: int, snapshots_in_ram: int, uf: float = 1, ub: float = 1, wd: float = 2, rd: float = 2
    ):
        super().__init__(Plan("periodic", max_n, snapshots_in_ram, None, wd, rd, uf, ub))


class HRevolve(Schedule):
    """Memory, and a disk of a given size."""

    def __init__(
        self,
        max_n: int,
        snapshots_in_ram: int,
        snapshots_on_disk: int,
        uf: float = 1,
        ub: float = 1,
        wd: float = 2,
        rd: float = 2,
    ):
        super().__init__(Plan("h-revolve", max_n, snapshots_in_ram, snapshots_on_disk, wd, rd, uf, ub))


class Async(Schedule):
    """Memory, and a disk whose transfers run beside the computation."""

    def __init__(
        self, max_n: int, snapshots_in_ram: int, uf: float = 1, ub: float = 1, wd: float = 2, rd: float = 2
    ):
        super().__init__(Plan("async", max_n, snapshots_in_ram, None, wd, rd, uf, ub))
