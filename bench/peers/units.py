"""The PyTorch side of units A and B: eager mode, f32, forward and backward with all gradients.

Reads lines `A <batch>` or `B <channels>` and answers each with the milliseconds of one step, as the kernels' `unit` example
does. `PEER_THREADS` sets the threads.
"""

import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class VitBlock(nn.Module):
    """Pre-norm, ViT-S: width 384, 6 heads, MLP ratio 4."""

    def __init__(self, width=384, heads=6):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with training batch norm and a skip."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + x)


class Unit:
    def __init__(self, name, size):
        if name == "A":
            self.net = nn.Sequential(*[VitBlock() for _ in range(4)])
            self.x = torch.randn(size, 197, 384)
        else:
            side = 2048 // size
            # The faster of PyTorch's two layouts on CPUs with its own convolution library is tried by `PEER_LAYOUT`.
            layout = getattr(torch, os.environ.get("PEER_LAYOUT", "contiguous_format"))
            self.net = nn.Sequential(*[BasicBlock(size) for _ in range(4)]).to(memory_format=layout)
            self.x = torch.randn(32, size, side, side).to(memory_format=layout)
        self.x.requires_grad_(True)
        self.dy = torch.randn_like(self.x)

    def step(self):
        self.x.grad = None
        self.net.zero_grad(set_to_none=True)
        self.net(self.x).backward(self.dy)


def main():
    torch.set_num_threads(int(os.environ.get("PEER_THREADS", "2")))
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", file=sys.stderr)
    units = {}
    for line in sys.stdin:
        name, size = line.split()
        if line not in units:
            units[line] = Unit(name, int(size))
        start = time.perf_counter()
        units[line].step()
        print(f"{(time.perf_counter() - start) * 1e3:.3f}", flush=True)


if __name__ == "__main__":
    main()
