"""What a step uses and takes, found by running one."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ._replay import Surroundings
from ._tree import flatten, rebuild


OVERHEAD = 1024
"""Bytes that a tensor takes beside its numbers, on the safe side: small ones have been seen to take about 700."""


@dataclass(frozen=True)
class Probe:
    """The parameters of a step, its sizes in bytes, and its times in seconds."""

    params: list[torch.Tensor]
    state_bytes: int
    tape_bytes: int
    forward: float
    backward: float


def probe(step: Callable[..., Any], state: Any, inputs: Any, params: list[torch.Tensor] | None) -> Probe:
    """Runs the first step, with nothing left changed by it but what the step itself changes."""
    leaves = [leaf.detach().clone() for leaf in flatten(state)]
    for leaf in leaves:
        leaf.requires_grad_(leaf.is_floating_point() or leaf.is_complex())
    surroundings = Surroundings(leaves)
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        # Some views of a tensor that is being built have no storage of their own to ask.
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with surroundings.undisturbed(), surroundings, torch.enable_grad():
        given, tree = inputs.leaf(0), rebuild(state, iter(leaves))
        with torch.no_grad():
            step(tree, inputs[0])
            if any(leaf._version for leaf in leaves):
                raise RuntimeError("the step changes its state in place, which snapshots share: return new tensors")
            start = time.perf_counter()
            step(tree, inputs[0])
            forward = time.perf_counter() - start
        start = time.perf_counter()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            after = [leaf for leaf in flatten(step(tree, given)) if isinstance(leaf, torch.Tensor)]
        out = [leaf for leaf in after if leaf.requires_grad]
        found = params if params is not None else parameters(step, out, [*leaves, *flatten(given)])
        sources = [leaf for leaf in [*leaves, *flatten(given), *found] if isinstance(leaf, torch.Tensor)]
        sources = [leaf for leaf in sources if leaf.requires_grad]
        if out and sources:
            torch.autograd.grad(out, sources, [torch.zeros_like(leaf) for leaf in out], allow_unused=True)
        backward = time.perf_counter() - start
    for leaf in [*leaves, *found, *flatten(given)]:
        if isinstance(leaf, torch.Tensor):
            saved.pop(leaf.untyped_storage().data_ptr(), None)
    # A step may draw, so a snapshot may have generators of its own.
    size = sum(tensor.nbytes + OVERHEAD for tensor in [*leaves, *surroundings.random()])
    # Saved tensors, the state's gradients before and after, and one gradient of each parameter beside the sum.
    tape = sum(storage.nbytes() for storage in saved.values()) + 2 * size + sum(param.nbytes for param in found)
    return Probe(found, size, tape, forward, backward)


def parameters(step: Callable[..., Any], out: list[torch.Tensor], own: list[Any]) -> list[torch.Tensor]:
    """All parameters of a module, and the leaves that the first step's graph ends in."""
    found: dict[int, torch.Tensor] = {}
    module = getattr(step, "__self__", step)
    if isinstance(module, torch.nn.Module):
        found = {id(param): param for param in module.parameters() if param.requires_grad}
    ours = {id(leaf) for leaf in own}
    for leaf in leaves_of(out, set()):
        if id(leaf) not in ours:
            found[id(leaf)] = leaf
    return list(found.values())


def leaves_of(out: list[torch.Tensor], ends: set[Any]) -> list[torch.Tensor]:
    """The leaves that a graph ends in, if it does not end in one of `ends` before."""
    todo, seen, leaves = [leaf.grad_fn for leaf in out], set(ends), []
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        following = node.next_functions
        if following:
            todo.extend([function for function, _ in following])
        elif hasattr(node, "variable"):
            leaves.append(node.variable)
    return leaves


def captured(out: list[Any], params: list[torch.Tensor], own: list[Any], step: int) -> None:
    """Refuses a leaf that a step uses and nobody knows: its gradient would be lost."""
    ends = {param.grad_fn for param in params if param.grad_fn is not None}
    known = {id(leaf) for leaf in own} | {id(param) for param in params}
    for leaf in leaves_of([tensor for tensor, _ in out], ends):
        if id(leaf) not in known:
            raise RuntimeError(
                f"step {step} uses a tensor of shape {tuple(leaf.shape)} that requires a gradient and that the first "
                "step did not use: name all of them in params="
            )
