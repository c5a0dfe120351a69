"""The inputs of a chain of tensors, whatever they come in, and their gradients."""

from numbers import Integral
from typing import Any, Protocol

import torch

from ._tree import change, flatten


class Inputs(Protocol):
    """What a step is given: as it is, or as leaves of its own that collect gradients."""

    tensors: list[torch.Tensor]
    """Those that want a gradient."""

    def __len__(self) -> int: ...
    def __getitem__(self, step: int) -> Any: ...
    def leaf(self, step: int) -> Any: ...
    def give(self, step: int, gradients: list[Any]) -> None: ...
    def gradients(self) -> list[Any]: ...
    def check(self) -> None: ...


class Numbers:
    """A number of steps: a step gets its number."""

    def __init__(self, steps: int):
        self.steps = steps
        self.tensors: list[torch.Tensor] = []

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> int:
        return step

    leaf = __getitem__

    def give(self, step: int, gradients: list[Any]) -> None:
        pass

    def check(self) -> None:
        pass

    def gradients(self) -> list[Any]:
        return []


class Along:
    """One tensor whose first dimension is time."""

    def __init__(self, tensor: torch.Tensor):
        self.tensors = [tensor] if tensor.requires_grad else []
        self.tensor, self.version = tensor.detach(), tensor._version
        self.wanted = tensor.requires_grad
        self.gradient: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, step: int) -> torch.Tensor:
        return self.tensor[step]

    def leaf(self, step: int) -> torch.Tensor:
        return self.tensor[step].detach().requires_grad_(self.wanted)

    def give(self, step: int, gradients: list[Any]) -> None:
        if self.wanted and gradients[0] is not None:
            if self.gradient is None:
                self.gradient = torch.zeros_like(self.tensor)
            self.gradient[step] = gradients[0]

    def check(self) -> None:
        if self.tensor._version != self.version:
            raise RuntimeError("the inputs were changed in place between forward and backward")

    def gradients(self) -> list[Any]:
        return [self.gradient] if self.wanted else []


class Each:
    """A sequence, an item a step: tensors, or tuples, lists and dictionaries of them."""

    def __init__(self, items: Any):
        self.items = items
        # Where the gradient of each leaf goes among those that want one.
        self.tensors: list[torch.Tensor] = []
        self.places: dict[int, list[int | None]] = {}
        for step in range(len(items)):
            places: list[int | None] = []
            for leaf in flatten(items[step]):
                wanted = isinstance(leaf, torch.Tensor) and leaf.requires_grad
                places.append(len(self.tensors) if wanted else None)
                if wanted:
                    self.tensors.append(leaf)
            if any(place is not None for place in places):
                self.places[step] = places
        self.found: list[Any] = [None] * len(self.tensors)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, step: int) -> Any:
        return self.items[step]

    def leaf(self, step: int) -> Any:
        def own(leaf: Any) -> Any:
            return leaf.detach().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

        return change(own, self.items[step])

    def give(self, step: int, gradients: list[Any]) -> None:
        for place, gradient in zip(self.places.get(step, []), gradients):
            if place is not None:
                self.found[place] = gradient

    def check(self) -> None:
        pass

    def gradients(self) -> list[Any]:
        return self.found


def inputs_of(inputs: Any) -> Inputs:
    if isinstance(inputs, Integral):
        return Numbers(int(inputs))
    return Along(inputs) if isinstance(inputs, torch.Tensor) else Each(inputs)
