"""Optimal snapshot schedules, a checked store in the background, and checkpointed backpropagation.

Reverse a chain of any length in a fixed memory: ask for a schedule (`schedule`), or run your own step function
forward and backward under one (`checkpointed`), with PyTorch's autograd or with an adjoint of your own in NumPy.
`plan` and `planned` do the same for the layers of a network; `reprop.adjoint` passes schedules to pyadjoint.

>>> import reprop
>>> plan = reprop.schedule("revolve", steps=10, slots=3)
>>> plan.advances, plan.snapshots_written, plan.makespan
(15, 6, 25.0)
>>> print(next(iter(plan)))
save x0 in memory 0

The store can be used alone, for snapshots of your own:

>>> import tempfile
>>> store = reprop.Store(tempfile.mkdtemp())
>>> store.put(3, [b"some", b"thing"])       # copied, and written in the background
>>> back = bytearray(9)
>>> store.get(3, [back])                    # checked
>>> back
bytearray(b'something')
>>> store.close()
"""

from ._plan import plan, planned, measure
from ._reprop import Action, CorruptError, Plan, Schedule, ScheduleError, Slot, Store, StoreError, StoreFullError
from ._run import Report, checkpointed
from ._schedule import METHODS, schedule

__all__ = [
    "METHODS",
    "Action",
    "CorruptError",
    "Plan",
    "Report",
    "Schedule",
    "ScheduleError",
    "Slot",
    "Store",
    "StoreError",
    "StoreFullError",
    "checkpointed",
    "measure",
    "plan",
    "planned",
    "schedule",
]
__version__ = "0.1.0"
