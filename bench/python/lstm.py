"""An LSTM's gradient under torch.utils.checkpoint in nested segments and under reprop, in one process, at equal memory.

    python bench/python/lstm.py [BRANCHES DEPTH [WIDTH [REPEATS]]]

The chain has BRANCHES ** DEPTH steps. Nested segments hold BRANCHES states on each of DEPTH levels; reprop gets
BRANCHES * DEPTH slots. Runs alternate, one thread, and the ratio is that of the medians. Needs torch and reprop.
"""

import statistics
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

import reprop

BATCH = 8


class Cell(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cell, self.evaluations = torch.nn.LSTMCell(width, width), 0

    def forward(self, state, given):
        self.evaluations += 1
        h, c, loss = state
        h, c = self.cell(given, (h, c))
        return h, c, loss + h.square().mean()


def nested(cell, inputs, branches, reentrant, *state):
    """Segments of segments, each recomputed from its first state."""
    if len(inputs) == 1:
        return cell(state, inputs[0])
    for part in inputs.chunk(branches):
        state = checkpoint(nested, cell, part, branches, reentrant, *state, use_reentrant=reentrant)
    return state


def main():
    given = [int(argument) for argument in sys.argv[1:]]
    branches, depth, width, repeats = given + [10, 3, 128, 3][len(given) :]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    steps, slots = branches**depth, branches * depth
    cell, inputs = Cell(width), torch.randn(steps, BATCH, width)
    # The reentrant kind does nothing unless some argument wants a gradient.
    state = (torch.zeros(BATCH, width, requires_grad=True), torch.zeros(BATCH, width), torch.zeros(()))
    ways = {
        "plain autograd": lambda: plain(cell, state, inputs),
        "torch.utils.checkpoint": lambda: nested(cell, inputs, branches, False, *state),
        "the same, reentrant": lambda: nested(cell, inputs, branches, True, *state),
        "reprop revolve": lambda: reprop.checkpointed(cell, state, inputs, strategy="revolve", slots=slots),
    }
    seconds, evaluations, gradients = {name: [] for name in ways}, {}, {}
    for _ in range(repeats):
        for name, run in ways.items():
            cell.evaluations = 0
            cell.zero_grad()
            start, busy = time.perf_counter(), time.process_time()
            run()[2].backward()
            seconds[name].append((time.perf_counter() - start, time.process_time() - busy))
            evaluations[name] = cell.evaluations
            gradients[name] = [param.grad for param in cell.parameters()]
    print(f"{steps} steps, {slots} states in memory, LSTM of width {width}, batch {BATCH}")
    medians = {name: [statistics.median(kind) for kind in zip(*seconds[name])] for name in ways}
    for name in ways:
        same = all(torch.equal(a, b) for a, b in zip(gradients[name], gradients["plain autograd"]))
        bits = "the bits of plain autograd" if same else "other bits than plain autograd"
        wall, busy = medians[name]
        print(f"{name:24} {wall:7.3f} s, {busy:7.3f} s busy, {evaluations[name]:6} forward evaluations, {bits}")
    for name in ("torch.utils.checkpoint", "the same, reentrant"):
        wall, busy = (theirs / ours for theirs, ours in zip(medians[name], medians["reprop revolve"]))
        print(f"reprop is {wall:.2f}x as fast as {name} by the clock, {busy:.2f}x by the processor's time")


def plain(cell, state, inputs):
    for given in inputs:
        state = cell(state, given)
    return state


if __name__ == "__main__":
    main()
