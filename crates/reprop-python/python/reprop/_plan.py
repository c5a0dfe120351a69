"""Plans for chains whose steps differ: the layers of a network under a byte budget."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _bytes
from ._reprop import Plan

if TYPE_CHECKING:
    import torch


def plan(
    times: Sequence[float | tuple[float, float]],
    sizes: Sequence[int | tuple[int, int]],
    budget: int | str,
    *,
    transfers: Sequence[tuple[float, float]] | None = None,
) -> Plan:
    """The fastest way to reverse a chain of unequal steps that keeps at most `budget` bytes.

    `times` has a forward and a backward time for each step (the backward includes a forward that records; one number
    stands for forward, with three times that backward). `sizes` has the bytes of each step's input and of its saved
    tensors (one number stands for both). With `transfers`, the times to write each input to a second memory and to
    read it back, that memory is used too. The working state and its gradient come on top of the budget.

    >>> best = plan([1.0] * 8, [(10, 40)] * 8, 120)
    >>> best.makespan, best.peak_bytes
    (30.0, 80)
    >>> plan([1.0] * 8, [(10, 40)] * 8, "320B").makespan     # everything fits: nothing is computed twice
    24.0
    >>> plan([1.0] * 8, [(10, 40)] * 8, 49)
    Traceback (most recent call last):
        ...
    reprop.ScheduleError: the budget of 49 bytes is too small: this chain needs at least 50
    """
    if len(times) != len(sizes):
        raise ValueError(f"{len(times)} times and {len(sizes)} sizes: each step needs both")
    steps = []
    for time, size in zip(times, sizes):
        forward, backward = time if isinstance(time, tuple) else (time, 3 * time)
        state, tape = size if isinstance(size, tuple) else (size, size)
        steps.append((float(forward), float(backward), int(state), int(tape)))
    return Plan(steps, _bytes.parse(budget), transfers)


def measure(net: "torch.nn.Sequential", sample: "torch.Tensor") -> tuple[list[Any], list[Any]]:
    """The times and sizes of a network's layers on this input, as `plan` takes them."""
    from ._layers import measured

    return measured(net, sample)


def planned(net: "torch.nn.Sequential", sample: "torch.Tensor", budget: int | str) -> "torch.nn.Module":
    """The network as a module that keeps at most `budget` bytes of states and saved tensors between forward and backward.

    The layers are measured on `sample`, which the inputs later have to resemble. The module shares the network's layers;
    `plan` is what it follows. Gradients have the bits of the network's own.
    """
    from ._layers import Planned

    return Planned(net, plan(*measure(net, sample), budget))
