"""Runs both sides of units A and B in turn and prints medians and ratios.

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

UNITS = {"A 8": 1.15, "A 2": 1.2, "A 1": 1.3, "B 64": 3.0, "B 128": 2.7, "B 256": 2.5}


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
    parser.add_argument("--units", nargs="*", default=list(UNITS))
    parser.add_argument("--json", help="write all times here")
    parser.add_argument("--ours", required=True)
    parser.add_argument("--peer", nargs="+", required=True)
    args = parser.parse_args()
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
    print(f"{'unit':8} {'PyTorch ms':>12} {'ours ms':>10} {'ratio':>7} {'floor':>6}")
    for unit, pairs in times.items():
        mine, theirs = (statistics.median(column) for column in zip(*pairs))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{unit:8} {theirs:12.1f} {mine:10.1f} {ratio:7.2f} {UNITS.get(unit, 0):6.2f}")


if __name__ == "__main__":
    main()
