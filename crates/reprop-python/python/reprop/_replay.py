"""What a step sees beside its arguments: random numbers and autocast, the same each time it is run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


class Surroundings:
    """Random generators and autocast as they were when the chain was started. Use it as a context around steps.

    Steps are run again in order from a snapshot, so the generators' states belong to snapshots and not to steps.
    """

    def __init__(self, tensors: list[torch.Tensor]):
        kinds = {tensor.device.type for tensor in tensors} | {"cpu"}
        self.cuda = sorted({tensor.device.index for tensor in tensors if tensor.device.type == "cuda"})
        self.autocast = [
            (kind, torch.get_autocast_dtype(kind)) for kind in sorted(kinds) if torch.is_autocast_enabled(kind)
        ]
        self.stack: ExitStack | None = None
        self.drawn = [torch.empty(0, dtype=torch.uint8)] * (1 + len(self.cuda))

    def __enter__(self) -> None:
        if self.autocast:
            self.stack = ExitStack()
            for kind, dtype in self.autocast:
                # A cast made without a graph must not be found again by a step that needs one.
                self.stack.enter_context(torch.autocast(kind, dtype=dtype, cache_enabled=False))

    def __exit__(self, *_: object) -> None:
        if self.stack is not None:
            self.stack.close()
            self.stack = None

    def random(self) -> list[torch.Tensor]:
        """The generators' states; the same tensors as the last time while nobody draws."""
        states = [torch.get_rng_state(), *(torch.cuda.get_rng_state(index) for index in self.cuda)]
        if not all(map(torch.equal, states, self.drawn)):
            self.drawn = states
        return self.drawn

    def reset(self, states: list[torch.Tensor]) -> None:
        """Sets the generators back."""
        torch.set_rng_state(states[0])
        for index, state in zip(self.cuda, states[1:]):
            torch.cuda.set_rng_state(state, index)

    @contextmanager
    def undisturbed(self) -> Iterator[Any]:
        """Leaves the generators as it found them."""
        before = self.random()
        try:
            yield
        finally:
            self.reset(before)
