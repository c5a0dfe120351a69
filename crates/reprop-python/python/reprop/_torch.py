"""Chains of PyTorch tensors, as one node of the autograd graph."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ._choose import Options, Sizes
from ._engine import Engine
from ._inputs import Inputs, inputs_of
from ._probe import captured, probe
from ._replay import Surroundings
from ._tree import change, flatten, rebuild, shape


def differentiable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def raw(leaf: torch.Tensor) -> Any:
    """The bytes of a tensor in main memory, without a copy."""
    return leaf.reshape(-1).view(torch.uint8).numpy()


class TensorMachine:
    """One working state of tensors. Memory snapshots share the tensors, and notice if a step changes them in place."""

    def __init__(self, step: Callable[..., Any], state: Any, inputs: Inputs, params: list[torch.Tensor]):
        self.step, self.inputs, self.params = step, inputs, params
        self.surroundings = Surroundings(flatten(state))
        self.state = change(lambda leaf: leaf.detach(), state)
        self.like = [torch.empty_like(leaf, device="meta") for leaf in flatten(self.state)]
        self.devices = [leaf.device for leaf in flatten(self.state)]
        self.tree = change(lambda _: None, state)
        self.versions = [(tensor, tensor._version) for tensor in params]
        self.gradients: list[torch.Tensor | None] = []
        self.param_gradients: list[torch.Tensor | None] = [None] * len(params)

    def forward(self, start: int, stop: int) -> None:
        with self.surroundings, torch.no_grad():
            state, step, inputs = self.state, self.step, self.inputs
            for i in range(start, stop):
                state = step(state, inputs[i])
            self.state = state

    def snapshot(self) -> Any:
        self.check_shape(self.state)
        leaves = [leaf.detach() for leaf in flatten(self.state)]
        self.check_shapes(leaves)
        return leaves, [leaf._version for leaf in leaves], self.surroundings.random()

    def check_shape(self, state: Any) -> None:
        if shape(state) != shape(self.tree):
            raise ValueError(f"a step has returned a state like {shape(state)}; the first is like {shape(self.tree)}")

    def check_shapes(self, leaves: list[torch.Tensor]) -> None:
        """A state on disk has to come back as it went."""
        for leaf, like in zip(leaves, self.like, strict=True):
            if leaf.shape != like.shape or leaf.dtype != like.dtype:
                raise ValueError(
                    f"a step has returned a tensor of shape {tuple(leaf.shape)} and {leaf.dtype}; the first state has "
                    f"{tuple(like.shape)} and {like.dtype} there"
                )

    def restore(self, snapshot: Any, keep: bool) -> None:
        leaves, versions, random = snapshot
        if any(leaf._version != version for leaf, version in zip(leaves, versions)):
            raise RuntimeError("a step has changed its state in place, which a snapshot shared: return new tensors")
        self.state = rebuild(self.tree, iter(leaves))
        self.surroundings.reset(random)

    def buffers(self, snapshot: Any) -> list[Any]:
        leaves, _, random = snapshot
        return [raw(leaf.cpu().contiguous()) for leaf in [*leaves, *random]]

    def empty(self, step: int) -> Any:
        leaves = [torch.empty(like.shape, dtype=like.dtype) for like in self.like]
        return leaves, [], [torch.empty_like(random) for random in self.surroundings.random()]

    def filled(self, snapshot: Any) -> Any:
        leaves, _, random = snapshot
        leaves = [leaf.to(device) for leaf, device in zip(leaves, self.devices)]
        return leaves, [leaf._version for leaf in leaves], random

    def record(self, step: int, advance: bool) -> Any:
        """Runs a step on leaves of its own; what it gives is the graph to go back through."""
        leaves = [leaf.detach() for leaf in flatten(self.state)]
        for leaf in leaves:
            leaf.requires_grad_(differentiable(leaf))
        given = self.inputs.leaf(step)
        with self.surroundings, torch.enable_grad():
            after = self.step(rebuild(self.tree, iter(leaves)), given)
        self.check_shape(after)
        # Without the graph: the way on keeps nothing of it.
        self.state = change(lambda leaf: leaf.detach(), after) if advance else None
        return leaves, given, flatten(after)

    def reverse(self, step: int, tape: Any) -> None:
        leaves, given, after = tape
        given = flatten(given)
        out = [
            (tensor, gradient)
            for tensor, gradient in zip(after, self.gradients)
            if gradient is not None and isinstance(tensor, torch.Tensor) and tensor.requires_grad
        ]
        captured(out, self.params, [*leaves, *given], step)
        # The parameters are outputs too, with what they have so far: each use of one then adds to it in the order in
        # which plain autograd would, and the sums have the same bits.
        out += [(param, so_far) for param, so_far in zip(self.params, self.param_gradients) if so_far is not None]
        outputs, seeds = [tensor for tensor, _ in out], [gradient for _, gradient in out]
        inputs = [leaf for leaf in [*leaves, *given] if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        found = torch.autograd.grad(outputs, inputs + self.params, seeds, allow_unused=True) if outputs else ()
        gradients = dict(zip(map(id, inputs), found))
        self.gradients = [gradients.get(id(leaf)) for leaf in leaves]
        self.param_gradients = list(found[len(inputs) :]) or self.param_gradients
        self.inputs.give(step, [gradients.get(id(leaf)) for leaf in given])

    def check(self) -> None:
        for tensor, version in self.versions:
            if tensor._version != version:
                raise RuntimeError(
                    f"a parameter of shape {tuple(tensor.shape)} was changed in place between forward and backward: "
                    "the steps that are run again would not be those that were run"
                )
        self.inputs.check()


class Reversal(torch.autograd.Function):
    """The whole chain as one node. Its inputs are those that may want a gradient: the state, the inputs, the parameters."""

    @staticmethod
    def forward(ctx: Any, engine: Engine[TensorMachine], on_report: Any, *_: torch.Tensor) -> Any:
        ctx.engine, ctx.on_report = engine, on_report
        ctx.set_materialize_grads(False)
        engine.forward()
        machine = engine.machine
        last = [leaf.detach() for leaf in flatten(machine.state)]
        machine.state = None
        ctx.mark_non_differentiable(*[leaf for leaf in last if not differentiable(leaf)])
        return tuple(last)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        engine, machine = ctx.engine, ctx.engine.machine
        try:
            machine.check()
        except BaseException:
            engine.close()
            raise
        machine.gradients = list(gradients)
        with machine.surroundings.undisturbed():
            engine.backward()
        if ctx.on_report is not None:
            ctx.on_report(engine.report())
        return None, None, *machine.gradients, *machine.inputs.gradients(), *machine.param_gradients


def run(
    step: Callable[..., Any], state: Any, inputs: Any, params: Iterable[torch.Tensor] | None, options: Options
) -> Any:
    """`checkpointed` for tensors."""
    for leaf in flatten(state):
        if not isinstance(leaf, torch.Tensor):
            raise TypeError(
                f"a state of PyTorch consists of tensors, and has a {type(leaf).__name__}; arrays need adjoint="
            )
    given = inputs_of(inputs)
    if len(given) == 0:
        return state
    if not torch.is_grad_enabled():
        return plainly(step, state, given)
    known = None if params is None else [param for param in params if param.requires_grad]
    seen = probe(step, state, given, known)
    if not (any(leaf.requires_grad for leaf in flatten(state)) or given.tensors or seen.params):
        return plainly(step, state, given)
    machine = TensorMachine(step, state, given, seen.params)
    sizes = Sizes(seen.state_bytes, seen.tape_bytes)
    engine = options.engine(machine, len(given), sizes, lambda: (seen.forward, seen.backward))
    last = Reversal.apply(engine, options.on_report, *flatten(state), *given.tensors, *seen.params)
    return rebuild(state, iter(last))


def plainly(step: Callable[..., Any], state: Any, inputs: Inputs) -> Any:
    """Nobody wants a gradient."""
    with torch.no_grad():
        for i in range(len(inputs)):
            state = step(state, inputs[i])
    return state
