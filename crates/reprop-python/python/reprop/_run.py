"""`checkpointed`: a step function forward and backward over any length."""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

from ._choose import Costs, Options, strategy_of
from ._engine import Report

__all__ = ["Report", "checkpointed"]


def checkpointed(
    step: Callable[[Any, Any], Any],
    state: Any,
    inputs: Any,
    *,
    adjoint: Callable[[Any, Any, Any], Any] | None = None,
    strategy: str = "auto",
    memory: int | str | None = None,
    slots: int | None = None,
    disk_slots: int | None = None,
    store: str | PathLike[str] | None = None,
    codec: str = "none",
    costs: Costs | None = None,
    params: Iterable[Any] | None = None,
    on_report: Callable[[Report], None] | None = None,
) -> Any:
    """Runs `state = step(state, inputs[i])` for every input, and goes back through all of it in a fixed memory.

    `state` is an array or tensor, or tuples, lists and dictionaries of them. `inputs` is an array whose first dimension
    is time, a sequence, or a number of steps (then the step gets its number). The step must be a function of
    its arguments: it is run again on the way back.

    `memory` (bytes, or such as "2GiB") bounds the snapshots in memory, what is in flight to the store, the working
    state and one step's saved tensors; or say the number of snapshots, `slots`. `strategy` is "auto" or one of
    `reprop.METHODS`; those with a disk write to a new folder below `store`, in background threads, and check what they
    read. `codec` is "none", "lz4", "zstd" or "auto". Where to use the disk is planned from the times of a forward step, a
    backward step, a write and a read: measured at the start, or given as `costs`.

    **PyTorch**, without `adjoint`: the result is the last state as part of the autograd graph; its `backward` gives the
    gradients of the state, the inputs and the parameters, the same bits as plain autograd's. Random numbers and autocast
    are replayed. A loss that adds up over the steps belongs into the state. Tensors that the step uses and that are not
    leaves have to be named in `params`.

    **NumPy**, with `adjoint(state, input, gradient)`: the result is a `Run` with the last `state` and
    `backward(gradient)`. The adjoint gets the state before the step, and returns the gradient by that state; if
    `inputs` are values and not a number of steps, a pair of that and the gradient by the input.

    >>> import numpy as np
    >>> run = checkpointed(
    ...     lambda x, i: x + 0.01 * x * x, np.array(1.0), 50,
    ...     adjoint=lambda x, i, gradient: gradient * (1 + 0.02 * x), slots=3,
    ... )
    >>> gradient, _ = run.backward(np.array(1.0))
    >>> print(f"{gradient:.4f} after {run.report.forward_evaluations} forward steps")
    3.8575 after 230 forward steps
    """
    options = Options(strategy, memory, slots, disk_slots, store, codec, costs, on_report)
    strategy_of(strategy, store)
    if adjoint is not None:
        from ._numpy import Run

        return Run(step, state, inputs, adjoint, options)
    from ._torch import run

    return run(step, state, inputs, params, options)
