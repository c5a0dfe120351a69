"""Measures what is claimed of chains, writes bench/runs/chains.json and says of each claim whether it holds.

    python bench/chains/run.py [--quick] [--out FILE]

Every run is a process of its own, so that its peak memory is its own. Ways that are compared take turns, and a ratio is the
median over rounds of the ratios within a round. Times are those that a pass takes inside its process.
"""

import argparse
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "target/release/examples"
# States of 1 MiB in 12 slots: what is known of each snapshot in the store is little beside them.
STATE, SLOTS, LENGTHS = 1 << 20, 12, (1_000, 10_000, 100_000)
# Grid, steps and slots of wave equations; the first has slots for a tenth of its states at most.
WAVES = (
    (256, 1000, 48),
    (200, 1000, 30),
    (200, 1000, 10),
    (350, 300, 10),
    (500, 100, 10),
    (200, 100, 5),
    (128, 50, 5),
    (100, 20, 3),
)
PEERS = ((100, 500, 10), (200, 1000, 10), (200, 1000, 30))
LSTM = "train --model lstm-char --data sotu --sequence 2000 --batch 8 --width 128 --steps 5".split()
# A tenth of the steps, and few.
LSTM_SLOTS = (200, 30)
# What noise may add where two ways do the same.
NOISE = 0.03


def run(command):
    """Output and peak memory in MiB of a process, as much as this one at least. Snapshots go beside the build, not to a folder that may be memory."""
    folder = tempfile.mkdtemp(dir=ROOT / "target")
    environment = {**os.environ, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        output, errors = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    subprocess.run(["rm", "-r", folder], check=True)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed: {errors}")
    return output, usage.ru_maxrss / 1024


def number(pattern, text):
    return float(re.search(pattern, text).group(1))


def long_chain(plan, steps):
    output, _ = run([EXAMPLES / "long_chain", STATE, SLOTS, plan, steps])
    _, _, evaluations, stall, predicted, seconds, peak, _, derivative = output.splitlines()[-1].split()
    return {
        "seconds": float(seconds),
        "predicted": float(predicted),
        "stall": float(stall),
        "evaluations": float(evaluations),
        "peak_mib": float(peak),
        "result": derivative,
    }


def wave(problem, plan):
    output, peak = run([EXAMPLES / "wave_adjoint", *problem, plan])
    return {
        "seconds": number(r"([\d.]+) s, predicted", output),
        "predicted": number(r"predicted ([\d.]+)", output),
        "stall": number(r"stalled ([\d.]+)", output),
        "evaluations": number(r"(\d+) forward", output) / problem[1],
        "peak_mib": peak,
        "result": output.split()[-1],
    }


def lstm(slots, plan):
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as folder:
        output, peak = run([ROOT / "target/release/reprop", *LSTM, "--slots", slots, "--strategy", plan, "--out", f"{folder}/run"])
    return {
        "seconds": number(r"\nseconds +([\d.]+)", output),
        "predicted": number(r"\npredicted +([\d.]+)", output),
        "stall": number(r"\nof them stalled +([\d.]+)", output),
        "evaluations": number(r"evaluations +(\d+)", output) / 2000,
        "peak_mib": peak,
        "result": json.loads(output.splitlines()[-1])["parameters_digest"],
    }


def pyrevolve(problem, kind):
    command = [sys.executable, Path(__file__).parent / "wave.py", *problem, *([kind] if kind == "disk" else [])]
    output, peak = run(command)
    return {"seconds": number(r"([\d.]+) s,", output), "peak_mib": peak, "result": output.split()[-1]}


def rounds(count, ways):
    """Every way once a round, in turn: {name: [run, ...]}."""
    found = {name: [] for name in ways}
    for index in range(count):
        for name, way in ways.items():
            found[name].append(way())
            print(f"  round {index + 1} {name}: {found[name][-1]['seconds']:.3f} s", file=sys.stderr)
    return found


def median(runs, field="seconds"):
    return statistics.median(one[field] for one in runs)


def ratio(runs, others):
    """The first's time in the second's."""
    return statistics.median(a["seconds"] / b["seconds"] for a, b in zip(runs, others))


def slower(runs, others):
    """In how many rounds the first was slower: about half of them if the two do the same."""
    return sum(a["seconds"] > b["seconds"] for a, b in zip(runs, others))


def constant(quick):
    """Claims on seconds a step and memory at three lengths."""
    lengths = LENGTHS[: 2 if quick else 3]
    few = {f"{plan} {n}": lambda plan=plan, n=n: long_chain(plan, n) for plan in ("async", "revolve") for n in lengths[:2]}
    found = rounds(3, few)
    for n in lengths[2:]:
        found |= rounds(2, {f"async {n}": lambda n=n: long_chain("async", n)})
        # Minutes a run, and its evaluations say it as well.
        found |= rounds(1, {f"revolve {n}": lambda n=n: long_chain("revolve", n)})
    rows = [
        {
            "plan": plan,
            "steps": n,
            "microseconds_per_step": 1e6 * median(found[f"{plan} {n}"]) / n,
            "peak_mib": median(found[f"{plan} {n}"], "peak_mib"),
            "evaluations_per_step": median(found[f"{plan} {n}"], "evaluations"),
        }
        for plan in ("async", "revolve")
        for n in lengths
    ]
    ours = [row for row in rows if row["plan"] == "async"]
    theirs = [row["microseconds_per_step"] for row in rows if row["plan"] == "revolve"]
    each, peaks = ([row[field] for row in ours] for field in ("microseconds_per_step", "peak_mib"))
    spread, grown = max(each) / min(each) - 1, max(peaks) / min(peaks) - 1
    lines = [
        claim("seconds a step of async within 10 % of each other", spread <= 0.10, f"{100 * spread:.1f} %"),
        claim("peak memory of async flat within 5 %", grown <= 0.05, f"{100 * grown:.1f} %"),
        claim("seconds a step of revolve grow", theirs == sorted(theirs), f"{theirs[-1] / theirs[0]:.2f}x"),
    ]
    return {"state_bytes": STATE, "slots": SLOTS, "rows": rows, "runs": found}, lines


def compared(count):
    """Claims on stored, revolve and async at lengths where storing everything fits."""
    problems = {f"wave {w[0]}x{w[0]}, {w[1]} steps, {w[2]} slots": (w, lambda plan, w=w: wave(w, plan)) for w in WAVES}
    for slots in LSTM_SLOTS:
        name = f"lstm-char, 2000 steps, {slots} slots"
        problems[name] = ((None, 2000, slots), lambda plan, slots=slots: lstm(slots, plan))
    rows, lines, everything = [], [], {}
    for name, ((side, steps, slots), way) in problems.items():
        print(name, file=sys.stderr)
        # A pass of milliseconds needs more rounds.
        many = 3 if side and side * side * steps < 5e6 else 2
        found = rounds(count * many, {plan: lambda plan=plan: way(plan) for plan in ("stored", "revolve", "async")})
        everything[name] = found
        results = {one["result"] for runs in found.values() for one in runs}
        row = {
            "problem": name,
            "steps": steps,
            "slots": slots,
            "seconds": {plan: median(runs) for plan, runs in found.items()},
            "peak_mib": {plan: median(runs, "peak_mib") for plan, runs in found.items()},
            "async_in_stored": ratio(found["async"], found["stored"]),
            "async_in_revolve": ratio(found["async"], found["revolve"]),
            "predicted_in_measured": statistics.median(one["predicted"] / one["seconds"] for one in found["async"]),
        }
        rows.append(row)
        lines.append(claim(f"{name}: one gradient", len(results) == 1, f"{len(results)}"))
        of_stored, of_revolve = row["async_in_stored"], row["async_in_revolve"]
        # Thirty states of an LSTM are far less than a tenth of what storing everything takes.
        if steps >= 1000 and (name.startswith("wave") or steps == 10 * slots):
            lines.append(claim(f"{name}: async at most 1.6x stored's time", of_stored <= 1.6, f"{of_stored:.2f}x"))
        if name.startswith("wave") and steps >= 10 * slots and steps >= 1000:
            part = row["peak_mib"]["async"] / row["peak_mib"]["stored"]
            lines.append(claim(f"{name}: async in a tenth of stored's memory", part <= 0.1, f"{100 * part:.1f} %"))
        lost = slower(found["async"], found["revolve"])
        said = f"{of_revolve:.2f}x, slower in {lost} of {len(found['async'])} rounds"
        lines.append(claim(f"{name}: async no slower than revolve", of_revolve <= 1 + NOISE, said))
    return {"rows": rows, "runs": everything}, lines


def modelled(constant_runs, compared_runs):
    """The simulator's time for the measured costs against the clock, of passes long enough to be timed."""
    runs = [runs for name, runs in constant_runs.items() if name.startswith("async")]
    runs += [found["async"] for found in compared_runs.values()]
    ratios = [median(group, "predicted") / median(group) for group in runs if median(group) > 0.05]
    off = max(abs(ratio - 1) for ratio in ratios)
    return [claim(f"{len(ratios)} measured passes within 10 % of the simulator's", off <= 0.10, f"{100 * off:.1f} %")]


def peers(count):
    """Claims against pyrevolve."""
    if importlib.util.find_spec("pyrevolve") is None:
        print("pyrevolve is not installed: not compared", file=sys.stderr)
        return None, [claim("compared with pyrevolve", False, "not installed")]
    rows, lines = [], []
    for problem in PEERS:
        name = f"wave {problem[0]}x{problem[0]}, {problem[1]} steps, {problem[2]} slots"
        print(name, file=sys.stderr)
        ways = {f"pyrevolve {kind}": lambda kind=kind: pyrevolve(problem, kind) for kind in ("memory", "disk")}
        ways |= {f"reprop {plan}": lambda plan=plan: wave(problem, plan) for plan in ("revolve", "async")}
        found = rounds(count, ways)
        # The same but for the order in which numpy and Rust add.
        norms = [float(runs[0]["result"]) for runs in found.values()]
        apart = max(norms) / min(norms) - 1
        lines.append(claim(f"{name}: one gradient", apart < 2e-3, f"norms {100 * apart:.2f} % apart"))
        row = {"problem": name, "seconds": {way: median(runs) for way, runs in found.items()}}
        row["peak_mib"] = {way: median(runs, "peak_mib") for way, runs in found.items()}
        for theirs in ("memory", "disk"):
            faster = ratio(found[f"pyrevolve {theirs}"], found["reprop async"])
            row[f"times_as_fast_as_{theirs}"] = faster
            lines.append(claim(f"{name}: faster than pyrevolve's {theirs} revolver", faster > 1, f"{faster:.2f}x"))
        rows.append(row)
    return {"rows": rows}, lines


def claim(line, holds, found):
    return {"line": line, "holds": bool(holds), "found": found}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and without the longest chain")
    parser.add_argument("--out", default=ROOT / "bench/runs/chains.json")
    arguments = parser.parse_args()
    count = 2 if arguments.quick else 5
    constants, lines = constant(arguments.quick)
    comparison, more = compared(count)
    lines += more + modelled(constants["runs"], comparison["runs"])
    pyrevolves, more = peers(2 if arguments.quick else 3)
    lines += more
    for part in (constants, comparison):
        del part["runs"]
    result = {"cores": os.cpu_count(), "constant": constants, "compared": comparison, "pyrevolve": pyrevolves, "claims": lines}
    Path(arguments.out).write_text(json.dumps(result, indent=1) + "\n")
    for line in lines:
        print(f"{'holds' if line['holds'] else 'FAILS'}  {line['line']}: {line['found']}")
    sys.exit(not all(line["holds"] for line in lines))


if __name__ == "__main__":
    main()
