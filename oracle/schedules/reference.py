"""Reference counts of snapshot schedules, made by two published packages.

    python -m venv .venv && .venv/bin/pip install checkpoint_schedules==1.0.4 pyrevolve==2.2.8
    .venv/bin/python oracle/schedules/reference.py > oracle/schedules/reference.json

checkpoint_schedules counts the forward that records a step's saved tensors as a forward step of its own, so a
schedule of n steps has n forward steps more than it has advances. Its H-Revolve takes the forward for the
backward cost and the other way round: only equal costs are asked for here.
"""

import contextlib
import json
import sys
import warnings

import checkpoint_schedules as cs
from pyrevolve.crevolve import Action as Deed
from pyrevolve.crevolve import CRevolve

DISK = cs.StorageType.DISK


def replay(schedule):
    """Runs a checkpoint_schedules schedule and counts what it does."""
    forward = snapshots = writes = reads = 0
    for action in schedule:
        if isinstance(action, cs.Forward):
            forward += action.n1 - action.n0
            kept = action.write_ics or action.write_adj_deps and action.storage != cs.StorageType.WORK
            snapshots += int(kept)
            writes += int(kept and action.storage == DISK)
        elif isinstance(action, (cs.Copy, cs.Move)):
            reads += int(action.from_storage == DISK)
            writes += int(action.to_storage == DISK)
        elif isinstance(action, cs.EndReverse):
            break
    return {"forward": forward, "snapshots": snapshots, "writes": writes, "reads": reads}


def crevolve(steps, slots):
    """Runs pyrevolve's C++ Revolve: advances and snapshots."""
    plan = CRevolve(slots, steps, None)
    advances = snapshots = 0
    while True:
        deed = plan.revolve()
        if deed == Deed.advance:
            advances += plan.capo - plan.oldcapo
        elif deed == Deed.takeshot:
            snapshots += 1
        elif deed == Deed.terminate:
            return {"advances": advances, "snapshots": snapshots}


def revolve_cases():
    for steps, slots in [(2, 1), (10, 3), (50, 2), (57, 4), (100, 10), (200, 20), (500, 7), (1000, 10), (1000, 30)]:
        counts = replay(cs.MultistageCheckpointSchedule(steps, slots, 0))
        found = {"steps": steps, "slots": slots, "forward": counts["forward"], "snapshots": counts["snapshots"]}
        yield found | {"crevolve": crevolve(steps, slots)}


def mixed_cases():
    for steps, slots in [(2, 1), (10, 3), (20, 1), (50, 4), (100, 10), (150, 6)]:
        counts = replay(cs.MixedCheckpointSchedule(steps, slots))
        yield {"steps": steps, "slots": slots, "forward": counts["forward"]}


def tier_cases():
    cases = [(20, 2, 3, 2), (50, 3, 4, 5), (100, 5, 10, 5), (100, 2, 6, 1), (150, 4, 8, 3), (200, 10, 20, 10)]
    for steps, slots, disk, cost in cases:
        found = {"steps": steps, "slots": slots, "disk_slots": disk, "cost": cost}
        found["h_revolve"] = replay(cs.HRevolve(steps, slots, disk, wd=cost, rd=cost))
        found["disk_revolve"] = replay(cs.DiskRevolve(steps, slots, wd=cost, rd=cost))
        found["periodic"] = replay(cs.PeriodicDiskRevolve(steps, slots, wd=cost, rd=cost))
        found["multistage"] = replay(cs.MultistageCheckpointSchedule(steps, slots, disk))
        yield found


def main():
    warnings.simplefilter("ignore")
    # The periodic schedule prints its period.
    with contextlib.redirect_stdout(sys.stderr):
        made = {"revolve": list(revolve_cases()), "mixed": list(mixed_cases()), "tiers": list(tier_cases())}
    lines = [f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]" for name, cases in made.items()]
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
