"""Schedules by name."""

from ._reprop import Action, Schedule

__all__ = ["METHODS", "ON_DISK", "Action", "schedule"]

METHODS = (
    "stored",
    "revolve",
    "mixed",
    "multistage",
    "disk-revolve",
    "periodic",
    "h-revolve",
    "online",
    "async",
)
"""The names that `schedule` takes."""

ON_DISK = ("multistage", "disk-revolve", "periodic", "h-revolve", "async")
"""Those that need a second tier."""


def schedule(
    method: str,
    *,
    steps: int,
    slots: int | None = None,
    disk_slots: int | None = None,
    write: float | None = None,
    read: float | None = None,
    forward: float = 1.0,
    backward: float = 1.0,
) -> Schedule:
    """The snapshot schedule of this name: an iterable of actions that tells its counts and draws itself.

    `slots` snapshots fit in memory, the first state's included. `write` and `read` are the times of a transfer to and
    from disk, `forward` and `backward` those of a step, all in one unit. A reverse step includes the forward that
    records what it needs.

    >>> plan = schedule("async", steps=100, slots=5, write=5)
    >>> plan.makespan < 280 <= schedule("h-revolve", steps=100, slots=5, disk_slots=10, write=5).makespan
    True
    >>> plan.draw().startswith("<svg")
    True

    Take an action apart by `match`:

    >>> state, slots, gradient = 1.0, {}, 1.0       # x becomes 2x + i: the derivative of ten steps is 1024
    >>> for action in schedule("revolve", steps=10, slots=3):
    ...     match action:
    ...         case Action.Forward(start, stop):
    ...             for i in range(start, stop):
    ...                 state = 2 * state + i
    ...         case Action.Save(_, slot):
    ...             slots[slot] = state
    ...         case Action.Load(_, slot, _):
    ...             state = slots[slot]
    ...         case Action.Reverse(step):
    ...             gradient *= 2
    >>> gradient
    1024.0

    What cannot be planned says why:

    >>> schedule("revolve", steps=10).makespan
    Traceback (most recent call last):
        ...
    reprop.ScheduleError: method revolve needs a number of memory slots (slots=)
    """
    return Schedule(method, steps, slots, disk_slots, write, read, forward, backward)
