"""Chains of NumPy arrays with an adjoint of the user's own."""

import time
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from ._choose import Options, Sizes
from ._engine import Report
from ._tree import change, flatten, shape

PROBES = 2
"""Steps run to learn their time, of which the last counts."""


def copy(tree: Any) -> Any:
    return change(lambda leaf: np.array(leaf, copy=True, order="C"), tree)


def raw(leaf: np.ndarray) -> np.ndarray:
    """The bytes of an array, without a copy."""
    return leaf.reshape(-1).view(np.uint8)


class ArrayMachine:
    """One working state of arrays. Snapshots are copies, so a step may change its state in place; and what a step was given
    or has returned is never written to."""

    def __init__(self, step: Callable[..., Any], adjoint: Callable[..., Any], state: Any, inputs: Any):
        self.step, self.adjoint = step, adjoint
        self.numbered = isinstance(inputs, Integral)
        self.inputs = range(inputs) if self.numbered else inputs
        self.state = copy(state)
        for leaf in flatten(self.state):
            if leaf.dtype.hasobject:
                raise TypeError(f"a state consists of arrays of numbers, and has one of {leaf.dtype}")
        # Shapes and dtypes of all states; views of one element, so it takes no memory.
        self.like = change(lambda leaf: np.broadcast_to(np.empty((), leaf.dtype), leaf.shape), self.state)
        self.gradient: Any = None
        self.input_gradients: list[Any] | None = None if self.numbered else [None] * len(inputs)

    def forward(self, start: int, stop: int) -> None:
        state, step, inputs = self.state, self.step, self.inputs
        for i in range(start, stop):
            state = step(state, inputs[i])
        self.state = state

    def snapshot(self) -> Any:
        self.check()
        return copy(self.state)

    def check(self) -> None:
        """A state on disk has to come back as it went."""
        if shape(self.state) != shape(self.like):
            raise ValueError(f"a step has returned a state like {shape(self.state)}; the first is like {shape(self.like)}")
        leaves, like = flatten(self.state), flatten(self.like)
        for leaf, wanted in zip(leaves, like):
            if np.shape(leaf) != wanted.shape or np.result_type(leaf) != wanted.dtype:
                raise ValueError(
                    f"a step has returned an array of shape {np.shape(leaf)} and dtype {np.result_type(leaf)}; "
                    f"the first state has {wanted.shape} and {wanted.dtype} there"
                )

    def restore(self, snapshot: Any, keep: bool) -> None:
        self.state = copy(snapshot) if keep else snapshot

    def buffers(self, snapshot: Any) -> list[np.ndarray]:
        return [raw(leaf) for leaf in flatten(snapshot)]

    def empty(self, step: int) -> Any:
        return change(lambda leaf: np.empty(leaf.shape, leaf.dtype), self.like)

    def filled(self, snapshot: Any) -> Any:
        return snapshot

    def record(self, step: int, advance: bool) -> Any:
        """An adjoint needs the state before the step."""
        before = self.state
        if advance:
            before = copy(before)
            self.state = self.step(self.state, self.inputs[step])
        return before

    def reverse(self, step: int, tape: Any) -> None:
        self.state = None
        result = self.adjoint(tape, self.inputs[step], self.gradient)
        if self.input_gradients is None:
            self.gradient = result
        else:
            try:
                self.gradient, self.input_gradients[step] = result
            except (TypeError, ValueError):
                raise TypeError(
                    f"the adjoint of step {step} has to return two things, the gradients by state and by input, "
                    f"and returned {type(result).__name__}"
                ) from None


class Run:
    """A chain that has run forward. `state` is the last state; `backward` goes back, once. Leaving a `with` block, or
    `close`, gives up on going back and removes what was stored."""

    state: Any

    def __init__(
        self, step: Callable[..., Any], state: Any, inputs: Any, adjoint: Callable[..., Any], options: Options
    ):
        machine = ArrayMachine(step, adjoint, state, inputs)
        size = sum(leaf.nbytes for leaf in flatten(machine.state))

        def times() -> tuple[float, float]:
            for _ in range(PROBES):
                start = time.perf_counter()
                step(copy(machine.state), machine.inputs[0])
                forward = time.perf_counter() - start
            # An adjoint step may add to the user's own arrays, so it is not tried but taken for two forward steps.
            return forward, 2 * forward

        self._machine, self._options = machine, options
        self._engine = options.engine(machine, len(machine.inputs), Sizes(size, size), times)
        self._engine.forward()
        self.state, machine.state = machine.state, None

    def backward(self, gradient: Any) -> tuple[Any, list[Any] | None]:
        """The gradients by the first state and, where `inputs` are values, by each of them."""
        machine = self._machine
        machine.gradient = change(np.array, gradient)
        self._engine.backward()
        if self._options.on_report is not None:
            self._options.on_report(self.report)
        return machine.gradient, machine.input_gradients

    @property
    def report(self) -> Report:
        """What was done so far."""
        return self._engine.report()

    def close(self) -> None:
        """Gives up on going back."""
        self._engine.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
