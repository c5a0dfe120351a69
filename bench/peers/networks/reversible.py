"""Reversible couplings, and bodies of them under a strategy.

`stored` is PyTorch's own graph; `reprop` recovers activations block by block in the backward pass, written from the
equations of the coupling, with transitions between runs of reversible blocks on PyTorch's graph; `checkpoint` is
`torch.utils.checkpoint` around each block and transition.
"""

from itertools import groupby

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

STRATEGIES = ("stored", "reprop", "checkpoint")


class Coupling(nn.Module):
    """`Y1 = X1 + F(X2)`, `Y2 = X2 + G(Y1)`."""

    reversible = True

    def __init__(self, f, g):
        super().__init__()
        self.f, self.g = f, g

    def forward(self, x1, x2):
        y1 = x1 + self.f(x2)
        return y1, x2 + self.g(y1)

    @torch.no_grad()
    def backward_from(self, y1, y2, dy1, dy2):
        """The inputs and their gradients from the outputs and theirs; those of parameters are accumulated."""
        with torch.enable_grad():
            y1 = y1.detach().requires_grad_()
            g = self.g(y1)
        torch.autograd.backward(g, dy2)
        x2 = y2 - g.detach()
        dx1 = dy1 + y1.grad
        with torch.enable_grad():
            x2 = x2.detach().requires_grad_()
            f = self.f(x2)
        torch.autograd.backward(f, dx1)
        return y1.detach() - f.detach(), x2.detach(), dx1, dy2 + x2.grad


class Swap(nn.Module):
    """`y = x~ + F(x)`, `y~ = x`."""

    reversible = True

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x1, x2):
        return x2 + self.f(x1), x1

    @torch.no_grad()
    def backward_from(self, y1, y2, dy1, dy2):
        with torch.enable_grad():
            x1 = y2.detach().requires_grad_()
            f = self.f(x1)
        torch.autograd.backward(f, dy1)
        return x1.detach(), y1 - f.detach(), dy2 + x1.grad, dy1


class Transition(nn.Module):
    """What is not reversible: from both streams to those of the next stage."""

    reversible = False


class Reversible(torch.autograd.Function):
    """A run of reversible blocks: nothing but its outputs is kept."""

    @staticmethod
    def forward(ctx, blocks, x1, x2):
        ctx.blocks = blocks
        for block in blocks:
            x1, x2 = block(x1, x2)
        ctx.save_for_backward(x1, x2)
        return x1, x2

    @staticmethod
    def backward(ctx, dy1, dy2):
        y1, y2 = ctx.saved_tensors
        for block in reversed(ctx.blocks):
            y1, y2, dy1, dy2 = block.backward_from(y1, y2, dy1, dy2)
        # Gradients of parameters were accumulated on the way: they are no inputs of this function, which is on the graph
        # because the stem's output is.
        return None, dy1, dy2


class Body(nn.Module):
    """Blocks and transitions under a strategy, which may change from step to step."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks, self.strategy = nn.ModuleList(blocks), "stored"

    def forward(self, x1, x2):
        if self.strategy == "reprop":
            for reversible, run in groupby(self.blocks, lambda block: block.reversible):
                if reversible:
                    x1, x2 = Reversible.apply(list(run), x1, x2)
                else:
                    for transition in run:
                        x1, x2 = transition(x1, x2)
            return x1, x2
        for block in self.blocks:
            if self.strategy == "checkpoint":
                x1, x2 = checkpoint(block, x1, x2, use_reentrant=False)
            else:
                x1, x2 = block(x1, x2)
        return x1, x2
