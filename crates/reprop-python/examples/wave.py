"""The gradient of a seismic misfit by the speed of waves, in NumPy. Ends with: gradient agrees with finite differences.

    python wave.py [GRID STEPS SLOTS [FOLDER]]

What Devito's users do by pyrevolve: a forward operator, an adjoint operator, and a schedule between them. The wave field is
stepped on a grid, one row of it is recorded, and the misfit to what was recorded over the true medium is differentiated
by the square of the speed at every point. With a FOLDER, snapshots go to disk in the background.
"""

import sys

import numpy as np

import reprop

DT = 0.4
INNER = (slice(1, -1), slice(1, -1))


def laplacian(u):
    return u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - 4.0 * u[INNER]


class Survey:
    """A source, a row of receivers, and the medium between: `speed` is the square of the wave's speed."""

    def __init__(self, side, steps):
        self.side, self.steps, self.row = side, steps, side - side // 4
        x, y = np.meshgrid(np.linspace(-0.5, 0.5, side), np.linspace(-0.5, 0.5, side))
        self.recorded = np.zeros((steps + 1, side))
        state, medium = self.rest(), 1.0 + 0.5 * np.exp(-40 * (x**2 + y**2))
        for i in range(steps):
            state = self.step(state, i, medium)
            self.recorded[i + 1] = state["now"][self.row]
        self.speed = np.ones((side, side))

    def rest(self):
        return {"now": np.zeros((self.side, self.side)), "before": np.zeros((self.side, self.side))}

    def step(self, state, i, speed=None):
        """The field one step on."""
        speed = self.speed if speed is None else speed
        now, after = state["now"], -state["before"]
        after += 2.0 * now
        after[INNER] += DT**2 * speed[INNER] * laplacian(now)
        phase = (0.12 * (i - 25.0)) ** 2
        after[self.side // 4, self.side // 2] += DT**2 * (1.0 - 2.0 * phase) * np.exp(-phase)
        return {"now": after, "before": now}

    def residual(self, state, i):
        return state["now"][self.row] - self.recorded[i]

    def adjoint(self, state, i, gradient):
        """The gradient one step back. The misfit of the state before the step comes in here."""
        after, before = gradient["now"], gradient["before"]
        self.gradient[INNER] += DT**2 * after[INNER] * laplacian(state["now"])
        weighed = np.zeros_like(after)
        weighed[INNER] = DT**2 * self.speed[INNER] * after[INNER]
        spread = -4.0 * weighed
        spread[:, 1:] += weighed[:, :-1]
        spread[:, :-1] += weighed[:, 1:]
        spread[1:] += weighed[:-1]
        spread[:-1] += weighed[1:]
        now = 2.0 * after + before + spread
        now[self.row] += self.residual(state, i)
        return {"now": now, "before": -after}

    def misfit(self):
        state, total = self.rest(), 0.0
        for i in range(self.steps):
            state = self.step(state, i)
            total += 0.5 * float(np.sum(self.residual(state, i + 1) ** 2))
        return total


def main():
    side, steps, slots = map(int, sys.argv[1:4]) if len(sys.argv) > 3 else (80, 400, 10)
    store = sys.argv[4] if len(sys.argv) > 4 else None
    survey = Survey(side, steps)
    survey.gradient = np.zeros((side, side))
    run = reprop.checkpointed(survey.step, survey.rest(), steps, adjoint=survey.adjoint, slots=slots, store=store)
    last = survey.rest()
    last["now"][survey.row] = survey.residual(run.state, steps)
    run.backward(last)
    print(run.report)

    gradient = survey.gradient
    direction = np.random.default_rng(0).normal(size=gradient.shape)
    survey.speed = 1.0 + 1e-4 * direction
    up = survey.misfit()
    survey.speed = 1.0 - 1e-4 * direction
    difference = (up - survey.misfit()) / 2e-4
    slope = float(np.sum(gradient * direction))
    print(f"slope along a random direction: {slope:.8e} by the adjoint, {difference:.8e} by differences")
    # Central differences: the truncation is of the square of the step, 1e-8 times third derivatives.
    assert abs(slope - difference) < 1e-5 * abs(slope), "gradient and finite differences differ"
    print("gradient agrees with finite differences")


if __name__ == "__main__":
    main()
