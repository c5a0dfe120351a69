"""The wave equation of `crates/reprop/examples/wave_adjoint.rs` under pyrevolve, in numpy.

    python bench/chains/wave.py GRID STEPS SLOTS [disk]

Prints the seconds of one gradient and its norm: the same as the Rust example's on the same arguments, but for the order in
which floats are added.
"""

import sys
import tempfile
import time

import numpy as np
import pyrevolve as pr

DT = 0.4


class Wave:
    def __init__(self, side, steps):
        at = (np.arange(side) / side)[:, None] - 0.5, (np.arange(side) / side)[None, :] - 0.45
        self.side, self.steps = side, steps
        self.m = 1.0 + 0.5 * np.exp(-40.0 * (at[0] ** 2 + at[1] ** 2))
        self.row = side - side // 4
        self.reset()
        self.recorded = np.zeros((steps, side - 2))
        for step in range(steps):
            self.advance(step)
            self.recorded[step] = self.state[0, self.row, 1:-1]
        self.m = np.ones((side, side))
        self.reset()

    def reset(self):
        """The field now and one step before; the adjoint of both; loss and gradient."""
        self.state = np.zeros((2, self.side, self.side))
        self.adjoint = np.zeros_like(self.state)
        self.loss, self.gradient = 0.0, np.zeros((self.side, self.side))

    @staticmethod
    def laplacian(u):
        return u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - 4.0 * u[1:-1, 1:-1]

    def advance(self, step):
        u, before = self.state
        inner = (slice(1, -1), slice(1, -1))
        after = before.copy()
        after[inner] = 2.0 * u[inner] - before[inner] + DT * DT * self.m[inner] * self.laplacian(u)
        phase = (0.12 * (step - 25.0)) ** 2
        after[self.side // 4, self.side // 2] += DT * DT * (1.0 - 2.0 * phase) * np.exp(-phase)
        self.state[1], self.state[0] = u.copy(), after

    def reverse(self, step):
        """The state is that after the step, which holds the one before it."""
        after, u = self.state
        a, back = self.adjoint
        residual = after[self.row, 1:-1] - self.recorded[step]
        self.loss += 0.5 * float(residual @ residual)
        a[self.row, 1:-1] += residual
        inner = (slice(1, -1), slice(1, -1))
        self.gradient[inner] += DT * DT * a[inner] * self.laplacian(u)
        back[inner] += 2.0 * a[inner] + self.laplacian(DT * DT * a * self.m)
        self.adjoint = np.stack([back, -a])


class Snapshot(pr.Checkpoint):
    def __init__(self, wave):
        self.wave = wave

    dtype = np.float64

    @property
    def size(self):
        return self.wave.state.size

    def get_data(self, timestep):
        return [self.wave.state]

    get_data_location = get_data


class Forward(pr.Operator):
    def __init__(self, wave):
        self.wave, self.evaluations = wave, 0

    def apply(self, t_start, t_end):
        for step in range(t_start, t_end):
            self.wave.advance(step)
        self.evaluations += t_end - t_start


class Reverse(pr.Operator):
    def __init__(self, wave):
        self.wave = wave

    def apply(self, t_start, t_end):
        for step in reversed(range(t_start, t_end)):
            self.wave.reverse(step)


def main():
    side, steps, slots = map(int, sys.argv[1:4])
    wave = Wave(side, steps)
    forward = Forward(wave)
    arguments = (Snapshot(wave), forward, Reverse(wave), slots, steps)
    with tempfile.TemporaryDirectory() as folder:
        disk = "disk" in sys.argv[4:]
        revolver = pr.DiskRevolver(*arguments, filedir=folder) if disk else pr.MemoryRevolver(*arguments)
        start = time.perf_counter()
        revolver.apply_forward()
        revolver.apply_reverse()
        seconds = time.perf_counter() - start
    norm = np.sqrt((wave.gradient**2).sum())
    name = "disk" if disk else "memory"
    print(f"pyrevolve {name} {seconds:.3f} s, {forward.evaluations} forward evaluations, gradient norm {norm:.3e}")


if __name__ == "__main__":
    main()
