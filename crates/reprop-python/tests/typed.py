"""What a type checker has to understand of the package."""

from typing import assert_type

import reprop

plan = reprop.schedule("revolve", steps=10, slots=3)
assert_type(plan, reprop.Schedule)
assert_type(plan.makespan, float)
for action in plan:
    match action:
        case reprop.Action.Load(step, slot, keep):
            assert_type(step, int)
            assert_type(slot, reprop.Slot)
            assert_type(keep, bool)
assert_type(reprop.plan([1.0], [(1, 2)], "1GiB"), reprop.Plan)
