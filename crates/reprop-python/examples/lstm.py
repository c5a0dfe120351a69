"""An LSTM over 100,000 steps in 16 MiB, gradients and all. `python lstm.py` ends with: memory stayed inside 16 MiB.

    python lstm.py [STEPS [MIB]]

Plain autograd keeps every step's tensors, so its memory grows with the steps. Under reprop the states are recomputed
from snapshots that fit the memory, and the gradient has the same bits.
"""

import resource
import sys
import time

import torch

import reprop

WIDTH, BATCH = 32, 4


class Model(torch.nn.Module):
    """One step: a symbol in, a guess at the next one out, the loss so far carried along."""

    def __init__(self):
        super().__init__()
        self.embed, self.cell = torch.nn.Embedding(16, WIDTH), torch.nn.LSTMCell(WIDTH, WIDTH)
        self.guess = torch.nn.Linear(WIDTH, 16)

    def forward(self, state, symbols):
        h, c, loss = state
        h, c = self.cell(self.embed(symbols[:, 0]), (h, c))
        return h, c, loss + torch.nn.functional.cross_entropy(self.guess(h), symbols[:, 1])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    mebibytes = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text = torch.randint(16, (steps + 1, BATCH)).cumsum(0) % 16
    pairs = torch.stack([text[:-1], text[1:]], dim=2)
    model = Model()

    def loss(pairs, **options):
        state = (torch.zeros(BATCH, WIDTH), torch.zeros(BATCH, WIDTH), torch.zeros(()))
        return reprop.checkpointed(model, state, pairs, **options)[2] / len(pairs)

    # Once for the libraries' own memory, and to compare.
    loss(pairs[:50], strategy="stored").backward()
    plain = [param.grad.clone() for param in model.parameters()]
    model.zero_grad()
    loss(pairs[:50], slots=3).backward()
    assert all(torch.equal(a, param.grad) for a, param in zip(plain, model.parameters()))
    model.zero_grad()

    before, start, reports = peak(), time.perf_counter(), []
    value = loss(pairs, memory=mebibytes << 20, on_report=reports.append)
    value.backward()
    seconds, growth = time.perf_counter() - start, peak() - before
    report = reports[0]
    norm = sum(param.grad.square().sum() for param in model.parameters()).sqrt()
    print(f"{steps} steps in {seconds:.1f} s, {report.slots} snapshots, {report.forward_evaluations} forward evaluations")
    print(f"loss {value.item():.4f}, gradient norm {norm.item():.4f}")
    print(f"peak memory grew by {growth:.1f} MiB")
    assert growth <= mebibytes, f"that is more than {mebibytes} MiB"
    print(f"memory stayed inside {mebibytes} MiB")


if __name__ == "__main__":
    main()
