"""Times the planning of snapshot schedules against checkpoint_schedules and pyrevolve, in one run, interleaved.

    python -m venv .venv && .venv/bin/pip install checkpoint_schedules==1.0.4 pyrevolve==2.2.8
    .venv/bin/python bench/schedules/compare.py [--rounds 3] [--save bench/runs/NAME.json]

Each round times every plan of every package once, the Rust side as a program of its own; the table shows medians.
A plan counts as made when each of its actions has been given out once. pyrevolve's C++ is called through its Python
binding, one call an action, and that is what is timed. checkpoint_schedules keeps Mixed's tables between calls, so from
the second round on it only gives the actions out.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
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


# (our name, package, plan)
PEERS = [
    ("revolve 1000 30", "checkpoint_schedules Revolve", lambda: replay(cs.Revolve(1000, 30))),
    ("revolve 1000 30", "checkpoint_schedules Multistage", lambda: replay(cs.MultistageCheckpointSchedule(1000, 30, 0))),
    ("revolve 1000 30", "pyrevolve CRevolve (C++)", lambda: crevolve(1000, 30)),
    ("revolve 10000 30", "pyrevolve CRevolve (C++)", lambda: crevolve(10_000, 30)),
    ("mixed 100 10", "checkpoint_schedules Mixed", lambda: replay(cs.MixedCheckpointSchedule(100, 10))),
    ("h-revolve 500 10 30", "checkpoint_schedules HRevolve", lambda: replay(cs.HRevolve(500, 10, 30, wd=10, rd=10))),
]


def ours():
    command = ["cargo", "run", "--quiet", "--release", "--package", "reprop-schedule", "--example", "timings"]
    lines = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {made["name"]: made["seconds"] for made in map(json.loads, lines)}


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
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    ours()  # builds
    own, theirs = {}, {}
    for _ in range(options.rounds):
        for name, taken in ours().items():
            own.setdefault(name, []).append(taken)
        for name, package, work in PEERS:
            theirs.setdefault((name, package), []).append(seconds(work))
    rows = []
    for (name, package), taken in theirs.items():
        mine, peer = statistics.median(own[name]), statistics.median(taken)
        rows.append({"plan": name, "peer": package, "seconds": mine, "peer_seconds": peer, "ratio": peer / mine})
        print(f"{name:22} {mine:10.3e} s   {package:32} {peer:10.3e} s   {peer / mine:10.1f} times")
    alone = {name: statistics.median(taken) for name, taken in own.items()}
    for name, taken in alone.items():
        print(f"{name:22} {taken:10.3e} s")
    if options.save:
        machine = {"processor": platform.processor() or platform.machine(), "python": platform.python_version()}
        found = {"machine": machine, "rounds": options.rounds, "comparisons": rows, "own_seconds": alone}
        options.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
