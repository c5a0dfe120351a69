"""Runs both sides in turn, step by step, and prints medians and ratios.

    compare.py --ours <program> --peer <command>

Each round runs every unit once on each side, one after the other, so that both see the same state of the machine; the first
rounds warm up. A ratio is the median over rounds of (peer's time / ours) within a round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

# What each comparison is to reach: units of work, and whole steps.
UNITS = {"A 8": 1.15, "A 2": 1.2, "A 1": 1.3, "B 64": 3.0, "B 128": 2.7, "B 256": 2.5}
STEPS = {
    "rev-vit-s stored 8": 1.15, "rev-vit-s reprop 8": 1.15,
    "rev-resnet-18 stored 64": 2.5, "rev-resnet-18 reprop 64": 2.5,
}  # fmt: skip


class Side:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )

    def step(self, unit):
        self.process.stdin.write(unit + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--units", nargs="*", help="what to run: `A 8`, `rev-vit-s reprop 8`, ...")
    parser.add_argument("--steps", action="store_true", help="whole training steps and not units")
    parser.add_argument("--json", help="write all times here")
    parser.add_argument("--ours", required=True)
    parser.add_argument("--peer", nargs="+", required=True)
    args = parser.parse_args()
    floors = STEPS if args.steps else UNITS
    args.units = args.units or list(floors)
    ours = Side([args.ours], {"RAYON_NUM_THREADS": str(args.threads)})
    peer = Side(args.peer, {"PEER_THREADS": str(args.threads), "OMP_NUM_THREADS": str(args.threads)})
    times = {unit: [] for unit in args.units}
    for round in range(args.warmup + args.rounds):
        for unit in args.units:
            pair = ours.step(unit), peer.step(unit)
            if round >= args.warmup:
                times[unit].append(pair)
        print(f"round {round + 1} of {args.warmup + args.rounds}", file=sys.stderr)
        if args.json:
            with open(args.json, "w") as file:
                json.dump({"threads": args.threads, "pairs_ours_peer_ms": times}, file, indent=1)
    print(f"{'unit':24} {'PyTorch ms':>12} {'ours ms':>10} {'ratio':>7} {'floor':>6}")
    for unit, pairs in times.items():
        mine, theirs = (statistics.median(column) for column in zip(*pairs))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{unit:24} {theirs:12.1f} {mine:10.1f} {ratio:7.2f} {floors.get(unit, 0):6.2f}")


if __name__ == "__main__":
    main()
