"""Times the planning of snapshot schedules against checkpoint_schedules and pyrevolve, in one run, interleaved.

    python -m venv .venv && .venv/bin/pip install checkpoint_schedules==1.0.4 pyrevolve==2.2.8
    .venv/bin/python bench/schedules/compare.py [--rounds 3] [--save bench/runs/NAME.json]

Each round makes every plan of every package in a process of its own, the Rust side too; the table shows medians. A
plan counts as made when each of its actions has been given out once. `first` is the first plan of the process;
`again` the second one, for which checkpoint_schedules has some of its tables at hand. Ours are the best of many,
and keep nothing. pyrevolve's C++ is called through its Python binding, one call an action, and that is what is
timed.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import checkpoint_schedules as cs
from pyrevolve.crevolve import Action as Deed
from pyrevolve.crevolve import CRevolve

ROOT = Path(__file__).resolve().parents[2]


def replay(schedule):
    for action in schedule:
        if isinstance(action, cs.EndReverse):
            break


def crevolve(steps, slots):
    plan = CRevolve(slots, steps, None)
    while plan.revolve() != Deed.terminate:
        pass


def multistage(steps, memory, disk):
    replay(cs.MultistageCheckpointSchedule(steps, memory, disk))


# (our name, package, plan, how many times as quick ours has to be, if that is an aim)
PEERS = [
    ("revolve 1000 30", "checkpoint_schedules Revolve", lambda: replay(cs.Revolve(1000, 30)), 1000),
    ("revolve 1000 30", "checkpoint_schedules Multistage", lambda: multistage(1000, 30, 0), None),
    ("revolve 1000 30", "pyrevolve CRevolve (C++)", lambda: crevolve(1000, 30), 1),
    ("revolve 10000 30", "pyrevolve CRevolve (C++)", lambda: crevolve(10_000, 30), 1),
    ("multistage 1000 10 20", "checkpoint_schedules Multistage", lambda: multistage(1000, 10, 20), None),
    ("mixed 100 10", "checkpoint_schedules Mixed", lambda: replay(cs.MixedCheckpointSchedule(100, 10)), None),
    ("h-revolve 500 10 30", "checkpoint_schedules HRevolve", lambda: replay(cs.HRevolve(500, 10, 30, wd=10, rd=10)), 100),
]


def ours():
    command = ["cargo", "run", "--quiet", "--release", "--package", "reprop-schedule", "--example", "timings"]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {made["name"]: made["seconds"] for made in map(json.loads, lines)}


# A plan that takes longer than this is not made again.
PATIENCE = 5.0


def peer(index):
    """Times one peer in a fresh process: the first plan and the second."""
    command = [sys.executable, __file__, "--peer", str(index)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def seconds(work):
    # pyrevolve takes hold of stdout's descriptor at each call, so it must be a file.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        start = time.perf_counter()
        work()
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--peer", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.peer is not None:
        work = PEERS[options.peer][2]
        first = seconds(work)
        print(json.dumps([first, seconds(work) if first < PATIENCE else first]))
        return
    ours()  # builds
    own, theirs = {}, {}
    for _ in range(options.rounds):
        for name, taken in ours().items():
            own.setdefault(name, []).append(taken)
        for index, (name, package, _, _) in enumerate(PEERS):
            theirs.setdefault((name, package), []).append(peer(index))
    rows = []
    aims = {(name, package): aim for name, package, _, aim in PEERS}
    print(f"{'plan':22} {'ours':>10} | {'peer':32} {'first plan':>10} {'ratio':>9} | {'second':>10} {'ratio':>9} | aim")
    for (name, package), taken in theirs.items():
        mine = statistics.median(own[name])
        first, again = (statistics.median(times) for times in zip(*taken))
        rows.append({"plan": name, "seconds": mine, "peer": package, "first_seconds": first, "again_seconds": again})
        rows[-1] |= {"first_ratio": first / mine, "again_ratio": again / mine}
        aim = aims[name, package]
        held = "" if aim is None else f">= {aim}: {'held' if min(first, again) >= aim * mine else 'MISSED'}"
        print(f"{name:22} {mine:8.2e} s | {package:32} {first:8.2e} s {first / mine:9.0f}", end="")
        print(f" | {again:8.2e} s {again / mine:9.0f} | {held}")
    alone = {name: statistics.median(taken) for name, taken in own.items()}
    print("ours alone")
    for name, taken in alone.items():
        print(f"{name:22} {taken:8.2e} s")
    if options.save:
        machine = {"processor": platform.processor() or platform.machine(), "python": platform.python_version()}
        found = {"machine": machine, "rounds": options.rounds, "comparisons": rows, "own_seconds": alone}
        options.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
