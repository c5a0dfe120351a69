"""The layers of a network under a plan."""

import time
from typing import Any

import torch

from ._engine import Engine
from ._inputs import Numbers
from ._reprop import Plan
from ._replay import Surroundings
from ._torch import Reversal, TensorMachine, differentiable


def measured(net: torch.nn.Sequential, sample: torch.Tensor) -> tuple[list[Any], list[Any]]:
    """A forward and a backward time, and the bytes of the input and of the saved tensors, for each layer."""
    times, sizes, state = [], [], sample.detach()
    surroundings = Surroundings([state])
    with surroundings.undisturbed(), surroundings:
        for layer in net:
            with torch.no_grad():
                layer(state)
                start = time.perf_counter()
                after = layer(state)
                forward = time.perf_counter() - start
            backward, tape = reversed_once(layer, state)
            times.append((forward, backward))
            sizes.append((state.nbytes, tape))
            state = after
    return times, sizes


def reversed_once(layer: torch.nn.Module, state: torch.Tensor) -> tuple[float, int]:
    """The seconds of recording and reversing a layer, and the bytes between the two."""
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    own = state.detach().requires_grad_(differentiable(state))
    params = [param for param in layer.parameters() if param.requires_grad]
    start = time.perf_counter()
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = layer(own)
    sources = ([own] if own.requires_grad else []) + params
    if out.requires_grad and sources:
        torch.autograd.grad(out, sources, torch.zeros_like(out), allow_unused=True)
    seconds = time.perf_counter() - start
    for param in layer.parameters():
        saved.pop(param.untyped_storage().data_ptr(), None)
    # The graph holds on to its result in any case.
    saved[out.untyped_storage().data_ptr()] = out.untyped_storage().nbytes()
    return seconds, sum(saved.values())


class LayerMachine(TensorMachine):
    """A step a layer: states have shapes of their own."""

    def check_shapes(self, leaves: list[torch.Tensor]) -> None:
        pass


class Planned(torch.nn.Module):
    """A network that follows a plan."""

    def __init__(self, net: torch.nn.Sequential, plan: Plan):
        super().__init__()
        if len(net) != plan.steps:
            raise ValueError(f"the plan is for {plan.steps} steps, and the network has {len(net)} layers")
        self.net, self.plan = net, plan

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        params: list[torch.Tensor] = [param for param in self.net.parameters() if param.requires_grad]
        if not torch.is_grad_enabled() or not (params or state.requires_grad):
            return self.net(state)
        layers = list(self.net)
        machine = LayerMachine(lambda state, i: layers[i](state), state, Numbers(len(layers)), params)
        engine = Engine("plan", len(layers), self.plan.steps, iter(self.plan), machine, None)
        (last,) = Reversal.apply(engine, None, state, *params)
        return last
