"""The 2-D wave equation's gradient under pyrevolve and under reprop, in one process, with the same solver.

    python bench/python/wave.py [GRID STEPS SLOTS [REPEATS]]

Needs numpy, pyrevolve 2.2.8 and reprop. Each takes the same number of snapshots: pyrevolve's memory revolver has them in
memory and its disk revolver on disk; reprop has them in memory, and with "async" a disk in the background beside. Runs
alternate, and the ratio is that of the medians.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyrevolve

import reprop

sys.path.insert(0, str(Path(__file__).parents[1] / "chains"))
from wave import Forward, Reverse, Snapshot, Wave  # noqa: E402


def by_pyrevolve(wave, slots, folder, disk):
    wave.reset()
    forward = Forward(wave)
    arguments = (Snapshot(wave), forward, Reverse(wave), slots, wave.steps)
    start = time.perf_counter()
    revolver = (
        pyrevolve.DiskRevolver(*arguments, filedir=folder) if disk else pyrevolve.MemoryRevolver(*arguments)
    )
    revolver.apply_forward()
    revolver.apply_reverse()
    return time.perf_counter() - start, forward.evaluations, wave.gradient.copy()


def by_reprop(wave, slots, folder, strategy):
    wave.reset()

    def step(state, i):
        wave.state = state
        wave.advance(i)
        return wave.state

    def adjoint(state, i, gradient):
        # Their reverse step starts from the state after the step.
        wave.state, wave.adjoint = state, gradient
        wave.advance(i)
        wave.reverse(i)
        return wave.adjoint

    start = time.perf_counter()
    run = reprop.checkpointed(
        step, wave.state, wave.steps, adjoint=adjoint, strategy=strategy, slots=slots, store=folder
    )
    run.backward(np.zeros_like(wave.state))
    return time.perf_counter() - start, run.report.forward_evaluations, wave.gradient.copy()


def main():
    given = [int(argument) for argument in sys.argv[1:]]
    side, steps, slots, repeats = given + [200, 1000, 10, 3][len(given) :]
    wave = Wave(side, steps)
    names = ["pyrevolve memory", "pyrevolve disk", "reprop revolve", "reprop async"]
    seconds, evaluations, gradients = {name: [] for name in names}, {}, {}
    for _ in range(repeats):
        for name in names:
            # Not in /tmp, which may be memory.
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                package, kind = name.split()
                run = (
                    by_pyrevolve(wave, slots, folder, kind == "disk")
                    if package == "pyrevolve"
                    else by_reprop(wave, slots, folder, kind)
                )
            seconds[name].append(run[0])
            evaluations[name], gradients[name] = run[1:]
    for name in names:
        same = np.array_equal(gradients[name], gradients[names[0]])
        assert same, f"{name} has another gradient"
    medians = {name: statistics.median(seconds[name]) for name in names}
    for name in names:
        print(f"{name:18} {medians[name]:8.3f} s {evaluations[name]:8} forward evaluations")
    for ours in names[2:]:
        for theirs in names[:2]:
            print(f"{ours} is {medians[theirs] / medians[ours]:.2f}x as fast as {theirs}")


if __name__ == "__main__":
    main()
