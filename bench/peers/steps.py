"""The PyTorch side of whole training steps: eager mode, f32, forward, backward and optimizer.

Reads lines `MODEL STRATEGY BATCH` and answers each with the milliseconds of one step, as the example `steps` of
`reprop-models` does. Models: `rev-vit-ti|s|b` (AdamW), `rev-resnet-18` for 32x32 images (SGD with Nesterov momentum).
Strategies: `stored` (PyTorch's own graph), `reprop` (activations recovered block by block in the backward pass, written
from the equations of the coupling), `checkpoint` (`torch.utils.checkpoint` around each block). `PEER_THREADS` sets the
threads. A line `memory MODEL STRATEGY BATCH` is answered by the peak of activation bytes of a step, the depth and the side
of images; `version` by the framework's.
"""

import json
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v)
        return self.out(heads.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.expand = nn.Linear(width, hidden)
        self.contract = nn.Linear(hidden, width)

    def forward(self, x):
        return self.contract(F.gelu(self.expand(self.norm(x))))


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


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2)


class Branch(nn.Module):
    """Two 3x3 convolutions, each with batch norm and ReLU."""

    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            convolution(channels, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(),
            convolution(channels, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x):
        return self.body(x)


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


class Down(nn.Module):
    """The down-sampling block of RevResNet: the main branch with stride 2, the other stream through a 1x1 convolution."""

    reversible = False

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.norm1 = convolution(inputs, outputs, 3, 2), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.conv3, self.norm3 = convolution(inputs, outputs, 1, 2), nn.BatchNorm2d(outputs)

    def forward(self, x1, x2):
        inner = self.norm1(self.conv1(x1))
        y1 = self.norm3(self.conv3(x2)) + F.relu(self.norm2(self.conv2(F.relu(inner))))
        return y1, inner


class Reversible(torch.autograd.Function):
    """A run of reversible blocks: nothing but its outputs is kept."""

    @staticmethod
    def forward(ctx, blocks, x1, x2, *parameters):
        ctx.blocks = blocks
        with torch.no_grad():
            for block in blocks:
                x1, x2 = block(x1, x2)
        ctx.save_for_backward(x1, x2)
        return x1, x2

    @staticmethod
    def backward(ctx, dy1, dy2):
        y1, y2 = ctx.saved_tensors
        for block in reversed(ctx.blocks):
            y1, y2, dy1, dy2 = block.backward_from(y1, y2, dy1, dy2)
        # Gradients of parameters were accumulated on the way.
        return None, dy1, dy2, *[None] * len([p for block in ctx.blocks for p in block.parameters()])


class Body(nn.Module):
    """Blocks under a strategy."""

    def __init__(self, blocks, strategy):
        super().__init__()
        self.blocks, self.strategy = nn.ModuleList(blocks), strategy

    def forward(self, x1, x2):
        if self.strategy == "reprop":
            run = []
            for block in [*self.blocks, None]:
                if block is not None and block.reversible:
                    run.append(block)
                    continue
                if run:
                    parameters = [p for block in run for p in block.parameters()]
                    x1, x2 = Reversible.apply(list(run), x1, x2, *parameters)
                    run = []
                if block is not None:
                    x1, x2 = block(x1, x2)
            return x1, x2
        for block in self.blocks:
            if self.strategy == "checkpoint":
                x1, x2 = checkpoint(block, x1, x2, use_reentrant=False)
            else:
                x1, x2 = block(x1, x2)
        return x1, x2


class RevViT(nn.Module):
    side, classes = 224, 1000

    def __init__(self, width, heads, strategy, depth=12, patch=16):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (self.side // patch) ** 2, width))
        blocks = [Coupling(Attention(width, heads), Mlp(width, 4 * width)) for _ in range(depth)]
        self.body = Body(blocks, strategy)
        self.norm = nn.LayerNorm(2 * width, eps=1e-6)
        self.head = nn.Linear(2 * width, self.classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        x = torch.cat(self.body(x, x), -1)
        return self.head(self.norm(x.mean(1)))

    def optimizer(self):
        return torch.optim.AdamW(self.parameters(), 1e-4, weight_decay=0.05)


class RevResNet18(nn.Module):
    side, classes = 32, 10

    def __init__(self, strategy):
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 128, 3), nn.BatchNorm2d(128), nn.ReLU())
        blocks = []
        for stage, channels in enumerate((64, 128, 256, 512)):
            blocks += [Swap(Branch(channels)) if stage == 0 else Down(channels // 2, channels), Swap(Branch(channels))]
        self.body = Body(blocks, strategy)
        self.head = nn.Linear(1024, self.classes)

    def forward(self, images):
        x = torch.cat(self.body(*self.stem(images).chunk(2, 1)), 1)
        return self.head(x.mean((2, 3)))

    def optimizer(self):
        return torch.optim.SGD(self.parameters(), 1e-3, momentum=0.9, nesterov=True, weight_decay=5e-4)


MODELS = {
    "rev-vit-ti": lambda strategy: RevViT(192, 3, strategy),
    "rev-vit-s": lambda strategy: RevViT(384, 6, strategy),
    "rev-vit-b": lambda strategy: RevViT(768, 12, strategy),
    "rev-resnet-18": RevResNet18,
}


class Training:
    def __init__(self, model, strategy, batch):
        torch.manual_seed(1)
        self.network = MODELS[model](strategy)
        self.optimizer = self.network.optimizer()
        self.images = torch.randn(batch, 3, self.network.side, self.network.side)
        self.labels = torch.zeros(batch, dtype=torch.long)

    def step(self, keep_gradients=False):
        self.optimizer.zero_grad(set_to_none=not keep_gradients)
        F.cross_entropy(self.network(self.images), self.labels).backward()
        self.optimizer.step()


    def memory(self):
        """The most bytes that lived at once in a step beside parameters, their gradients and the optimizer's state.

        PyTorch's profiler sees every allocation. Gradients are there before the step and only added to, so that what comes
        and goes are activations, what the backward pass makes of them, and temporaries.
        """
        self.step()
        self.step(keep_gradients=True)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            self.step(keep_gradients=True)
        events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
        live = peak = 0
        for event in sorted(events, key=lambda event: event.start_ns()):
            live += event.nbytes()
            peak = max(peak, live)
        return peak


def check():
    """Gradients under each strategy against PyTorch's graph: the peer does the same work."""
    for model in ("rev-vit-ti", "rev-resnet-18"):
        found = {}
        print(f"{model}: {sum(p.numel() for p in MODELS[model]('stored').parameters())} parameters")
        for strategy in ("stored", "reprop", "checkpoint"):
            training = Training(model, strategy, 2)
            F.cross_entropy(training.network(training.images), training.labels).backward()
            found[strategy] = [p.grad for p in training.network.parameters()]
        for strategy in ("reprop", "checkpoint"):
            # Beside the largest tensor's: a bias before batch norm has no gradient but rounding.
            largest = max(gradient.norm() for gradient in found["stored"])
            pairs = zip(found["stored"], found[strategy])
            worst = max(((a - b).norm() / largest).item() for a, b in pairs)
            print(f"{model} {strategy}: gradients within {worst:.1e} of stored")
            assert worst < 1e-3


def main():
    torch.set_num_threads(int(os.environ.get("PEER_THREADS", "2")))
    if sys.argv[1:] == ["check"]:
        return check()
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads", file=sys.stderr)
    known = {}
    for line in sys.stdin:
        if line == "version\n":
            print(f"PyTorch {torch.__version__.split('+')[0]}", flush=True)
            continue
        if line.startswith("memory "):
            model, strategy, batch = line.split()[1:]
            training = Training(model, strategy, int(batch))
            depth, image = len(training.network.body.blocks), training.network.side
            print(json.dumps({"bytes": training.memory(), "depth": depth, "image": image}), flush=True)
            continue
        model, strategy, batch = line.split()
        if line not in known:
            known[line] = Training(model, strategy, int(batch))
        start = time.perf_counter()
        known[line].step()
        print(f"{(time.perf_counter() - start) * 1e3:.3f}", flush=True)


if __name__ == "__main__":
    main()
