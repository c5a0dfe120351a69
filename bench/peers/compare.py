"""Runs both sides in turn, step by step, and prints medians and ratios.

    compare.py --ours <program> --peer <command>

Each round runs every unit on each side, one after the other, so that both see the same state of the machine; the first
rounds warm up. A ratio is the median over rounds of (peer's time / ours) within a round.

Units are short, and so each turn is two steps, of which the second counts, as in training, where a step follows a step: during
the first, threads of the other side may still be awake, and nothing of its own is left in the caches.
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
    "rev-swin-t stored 8": 1.2, "rev-swin-t reprop 8": 1.2,
    "rev-mvit-b stored 8": 1.2, "rev-mvit-b reprop 8": 1.2,
    "rev-roberta-base stored 8": 1.2, "rev-roberta-base reprop 8": 1.2,
    "rev-resnet-18 stored 64": 2.5, "rev-resnet-18 reprop 64": 2.5,
    # Without an aim of their own.
    "rev-vit-s checkpoint 8": None, "rev-swin-t checkpoint 8": None, "rev-mvit-b checkpoint 8": None,
    "rev-roberta-base checkpoint 8": None, "rev-resnet-18 checkpoint 64": None,
}  # fmt: skip
# What keeps PyTorch's own kernels, oneDNN's and MKL's to AVX2.
PEER_ON_AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}  # fmt: skip
# The part of the stored step's throughput that a recomputed one is to have.
RECOVERED = 0.78


class Side:
    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.process.args[0]} ended while it was asked for `{line}`")
        return answer.strip()

    def step(self, unit, before=0):
        for _ in range(before):
            self.ask(unit)
        answer = self.ask(unit)
        try:
            return float(answer)
        except ValueError:
            sys.exit(f"{self.process.args[0]}: {answer}")


def table(times, floors, bar=" "):
    """One line a unit: both medians, and the median of the ratios within rounds."""
    rows = [("unit", "PyTorch ms", "ours ms", "ratio", "aim")]
    for unit, pairs in times.items():
        mine, theirs = (statistics.median(column) for column in zip(*pairs))
        ratio = statistics.median(b / a for a, b in pairs)
        aim = f"{floors[unit]:.2f}" if floors.get(unit) else "-"
        rows.append((unit, f"{theirs:.1f}", f"{mine:.1f}", f"{ratio:.2f}", aim))
    lines = [bar.join([f"{row[0]:28}", *(f"{cell:>10}" for cell in row[1:])]) for row in rows]
    if bar != " ":
        lines = [f"| {line} |" for line in lines]
        lines.insert(1, "|---" * 5 + "|")
    return "\n".join(lines)


def recovered(times):
    """One line a network: the throughput of ours recomputed, as a part of that stored, by the median of the ratios within rounds."""
    lines = []
    for unit, stored in times.items():
        again = times.get(unit.replace(" stored ", " reprop "))
        if " stored " in unit and again:
            parts = statistics.median(a / b for (a, _), (b, _) in zip(stored, again))
            lines.append(f"{unit.split()[0]}: reprop {parts:.3f} of stored (aim {RECOVERED})")
    return lines


def chosen(names, floors):
    """The units of these names; all of a network or kind where only that is named; all without names."""
    of = {name: [unit for unit in floors if unit.split()[0] == name] or [name] for name in names or []}
    return list(dict.fromkeys(unit for units in of.values() for unit in units)) or list(floors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--units", nargs="*", help="what to run: `A 8`, `rev-vit-s reprop 8`, ...; `rev-vit-s` for all of it")
    parser.add_argument("--steps", action="store_true", help="whole training steps and not units")
    parser.add_argument("--json", help="write all times here; `reprop bench --peers` shows them in its report")
    parser.add_argument("--markdown", help="write the table of ratios here")
    parser.add_argument("--ours", required=True)
    parser.add_argument("--peer", nargs="+", required=True)
    parser.add_argument("--isa", choices=["avx2+fma"], help="units on this instruction set, on both sides")
    parser.add_argument("--peer-preload", help="a library that the peer loads before all others")
    args = parser.parse_args()
    floors = STEPS if args.steps else UNITS
    args.units = chosen(args.units, floors)
    if args.isa and args.steps:
        parser.error("--isa is for units")
    ours = Side([args.ours, *([args.isa] if args.isa else [])], {"RAYON_NUM_THREADS": str(args.threads)})
    settings = {"LD_PRELOAD": args.peer_preload} if args.peer_preload else {}
    settings |= PEER_ON_AVX2 if args.isa else {}
    peer = Side(args.peer, {"PEER_THREADS": str(args.threads), "OMP_NUM_THREADS": str(args.threads), **settings})
    times = {unit: [] for unit in args.units}
    # What else two archived runs may differ by.
    preloaded = os.path.basename(args.peer_preload) if args.peer_preload else None
    found = {"threads": args.threads, "isa": args.isa, "peer_preload": preloaded, "pairs_ours_peer_ms": times}
    if args.steps:
        # Before the clock runs: watching allocations takes time.
        found["peer"] = peer.ask("version")
        memory = {unit: json.loads(peer.ask(f"memory {unit}")) for unit in args.units}
        # The report's curves take networks of images alone: `reprop bench` runs text in longer sequences.
        found["peer_memory"] = {unit: peak for unit, peak in memory.items() if "image" in peak}
        found["peer_memory_of_text"] = {unit: peak for unit, peak in memory.items() if "image" not in peak}
    before = 0 if args.steps else 1
    for round in range(args.warmup + args.rounds):
        for unit in args.units:
            # Ours has one way to recompute; the peer has two.
            pair = ours.step(unit.replace(" checkpoint ", " reprop "), before), peer.step(unit, before)
            if round >= args.warmup:
                times[unit].append(pair)
        print(f"round {round + 1} of {args.warmup + args.rounds}", file=sys.stderr)
        if args.json:
            with open(args.json, "w") as file:
                json.dump(found, file, indent=1)
    parts = recovered(times)
    print("\n".join([table(times, floors), *parts]))
    if args.markdown:
        with open(args.markdown, "w") as file:
            file.write(table(times, floors, " | ") + "\n")
            file.writelines(f"\n{part}\n" for part in parts)


if __name__ == "__main__":
    main()
