"""RevSwin: couplings of attention inside windows and perceptron; between stages both streams are fused, and four tokens
are merged into one of twice the width."""

import torch
from torch import nn
from torch.nn import functional as F

from .layers import Classifier, Fuse, ImageNetwork, Mlp, Patches, norm
from .reversible import Body, Coupling, Transition


def relative_positions(window):
    """The row of the table of biases for each query and key, `[tokens * tokens]`."""
    y, x = (axis.flatten() for axis in torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij"))
    rows, columns = (axis[:, None] - axis[None] + window - 1 for axis in (y, x))
    return (rows * (2 * window - 1) + columns).flatten()


def hidden_pairs(side, window, shift):
    """`-inf` for tokens that only the roll made neighbours: `[windows, 1, tokens, tokens]`."""
    along = torch.zeros(side, dtype=torch.long)
    along[-window:-shift], along[-shift:] = 1, 2
    region = 3 * along[:, None] + along[None]
    count = side // window
    region = region.view(count, window, count, window).transpose(1, 2).reshape(count * count, -1)
    return torch.zeros(()).where(region[:, :, None] == region[:, None], torch.tensor(-torch.inf))[:, None]


class WindowAttention(nn.Module):
    def __init__(self, side, window, shift, width, heads):
        super().__init__()
        self.side, self.window, self.shift, self.heads = side, window, shift, heads
        self.norm = norm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.bias = nn.Parameter(0.02 * torch.randn((2 * window - 1) ** 2, heads))
        self.projection = nn.Linear(width, width)
        self.register_buffer("relative", relative_positions(window), persistent=False)
        self.register_buffer("hidden", hidden_pairs(side, window, shift) if shift else None, persistent=False)

    def biases(self):
        """`[heads, tokens, tokens]`, or with a shift `[windows * heads, tokens, tokens]`."""
        tokens = self.window**2
        bias = F.embedding(self.relative, self.bias).T.reshape(self.heads, tokens, tokens)
        return bias if self.hidden is None else (bias + self.hidden).flatten(0, 1)

    def attend(self, q, k, v):
        """Of all heads of all windows, `[images * windows * heads, tokens, width of a head]`."""
        bias = self.biases()
        q, k, v = (part.view(-1, len(bias), *part.shape[1:]) for part in (q, k, v))
        if not torch.is_grad_enabled():
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])
        # The fused attention takes no mask that needs a gradient, and what PyTorch does then scales both factors and
        # looks for rows that are hidden altogether.
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        return scores.add_(bias).softmax(-1) @ v

    def forward(self, x):
        batch, _, width = x.shape
        side, window, count = self.side, self.window, self.side // self.window
        x = self.norm(x).view(batch, side, side, width)
        if self.shift:
            x = x.roll((-self.shift, -self.shift), (1, 2))
        # Windows are cut where heads are, in one copy.
        qkv = self.qkv(x).view(batch, count, window, count, window, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(5, 0, 1, 3, 6, 2, 4, 7).reshape(3, -1, window**2, width // self.heads)
        heads = self.attend(q, k, v).reshape(batch, count, count, self.heads, window, window, -1)
        y = self.projection(heads.permute(0, 1, 4, 2, 5, 3, 6).reshape(batch, side, side, width))
        if self.shift:
            y = y.roll((self.shift, self.shift), (1, 2))
        return y.view(batch, side * side, width)


class Merge(Transition):
    def __init__(self, side, width):
        super().__init__()
        self.side = side
        self.fuse = Fuse(width, width)
        self.norm = norm(4 * width)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x1, x2):
        batch, tokens, width = x1.shape
        fused = self.fuse(x1, x2)
        # Of each square: above left, below left, above right, below right.
        squares = fused.view(batch, self.side // 2, 2, self.side // 2, 2, width).permute(0, 1, 3, 4, 2, 5)
        x = self.reduction(self.norm(squares.reshape(batch, tokens // 4, 4 * width)))
        return x, x


class RevSwin(ImageNetwork):
    def __init__(
        self, width, depths, heads, image=224, patch=4, window=7, ratio=4, classes=1000, channels=3
    ):  # fmt: skip
        super().__init__()
        self.side = image
        self.stem = Patches(image, patch, width, positions=False, channels=channels)
        blocks, side = [], image // patch
        for stage, depth in enumerate(depths):
            # The largest window that leaves no token over; it is shifted in every second block, if there are several.
            here = max(n for n in range(1, min(window, side) + 1) if side % n == 0)
            for block in range(depth):
                shift = here // 2 if block % 2 and here < side else 0
                attention = WindowAttention(side, here, shift, width, heads)
                blocks.append(Coupling(attention, Mlp(width, ratio * width)))
            if stage + 1 < len(depths):
                blocks.append(Merge(side, width))
                side, width, heads = side // 2, 2 * width, 2 * heads
        self.body = Body(blocks)
        self.head = Classifier(width, classes, averages_first=False)
