"""RevMViT: couplings of pooled attention and perceptron; between stages an ordinary block on the fused streams doubles
width and heads, and pools queries and its residual path by two."""

import torch
from torch import nn
from torch.nn import functional as F

from .layers import Classifier, Fuse, ImageNetwork, Mlp, Patches, norm
from .reversible import Body, Coupling, Transition


def as_image(x, side):
    """Tokens `[batch, side * side, width]` as an image with its channels last: nothing is moved."""
    return x.unflatten(1, (side, side)).permute(0, 3, 1, 2)


class Pool(nn.Module):
    """A depthwise 3x3 convolution, the same for each head, and a norm over a head's width."""

    def __init__(self, head, stride):
        super().__init__()
        self.stride = stride
        self.weight = nn.Parameter(0.02 * torch.randn(head, 1, 3, 3))
        self.norm = norm(head)

    def forward(self, x, side):
        """`[batch, side * side, width] -> [batch, heads, fewer, head]`"""
        width, head = x.shape[2], len(self.weight)
        # All heads beside each other, as tokens lie in memory: no head is moved before the convolution or after it.
        weight = self.weight.repeat(width // head, 1, 1, 1)
        image = F.conv2d(as_image(x, side), weight, stride=self.stride, padding=1, groups=width)
        pooled = image.permute(0, 2, 3, 1).flatten(1, 2).unflatten(2, (-1, head))
        return self.norm(pooled).transpose(1, 2)


class PooledAttention(nn.Module):
    def __init__(self, side, width, heads, stride, query_stride=None):
        super().__init__()
        self.side, self.heads = side, heads
        self.norm = norm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.query_pool = Pool(width // heads, query_stride) if query_stride else None
        self.key_pool = Pool(width // heads, stride)
        self.value_pool = Pool(width // heads, stride)
        self.projection = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        if self.query_pool is None:
            q = q.unflatten(2, (self.heads, -1)).transpose(1, 2)
        else:
            q = self.query_pool(q, self.side)
        k, v = self.key_pool(k, self.side), self.value_pool(v, self.side)
        return self.projection(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Widen(Transition):
    def __init__(self, side, width, heads, stride, hidden):
        super().__init__()
        self.side = side
        self.fuse = Fuse(width, 2 * width)
        self.attention = PooledAttention(side, 2 * width, heads, stride, query_stride=2)
        self.mlp = Mlp(2 * width, hidden)

    def forward(self, x1, x2):
        z = self.fuse(x1, x2)
        pooled = F.max_pool2d(as_image(z, self.side), 3, stride=2, padding=1)
        a = pooled.permute(0, 2, 3, 1).flatten(1, 2) + self.attention(z)
        x = a + self.mlp(a)
        return x, x


class RevMViT(ImageNetwork):
    def __init__(
        self, width, depths, heads=1, image=224, patch=4, kernel=7, stride=4, ratio=4, classes=1000, channels=3
    ):  # fmt: skip
        super().__init__()
        self.side = image
        self.stem = Patches(image, patch, width, kernel, channels=channels)
        blocks, side = [], image // patch
        for stage, depth in enumerate(depths):
            for _ in range(depth):
                attention = PooledAttention(side, width, heads, stride)
                blocks.append(Coupling(attention, Mlp(width, ratio * width)))
            if stage + 1 < len(depths):
                heads, stride = 2 * heads, max(stride // 2, 1)
                blocks.append(Widen(side, width, heads, stride, 2 * ratio * width))
                side, width = (side + 1) // 2, 2 * width
        self.body = Body(blocks)
        self.head = Classifier(width, classes)
