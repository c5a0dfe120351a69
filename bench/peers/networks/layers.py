"""What families share: attention, perceptron, the ends of networks of images, and AdamW."""

import torch
from torch import nn
from torch.nn import functional as F


def norm(width):
    return nn.LayerNorm(width, eps=1e-6)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = norm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v)
        return self.projection(heads.transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = norm(width)
        self.expand = nn.Linear(width, hidden)
        self.contract = nn.Linear(hidden, width)

    def forward(self, x):
        return self.contract(F.gelu(self.expand(self.norm(x))))


class Fuse(nn.Module):
    """Both streams into one."""

    def __init__(self, width, outputs):
        super().__init__()
        self.expand = nn.Linear(2 * width, 2 * width)
        self.contract = nn.Linear(2 * width, outputs)

    def forward(self, x1, x2):
        return self.contract(F.gelu(self.expand(torch.cat([x1, x2], -1))))


class Patches(nn.Module):
    """Images to tokens `[batch, tokens, width]`, with learned positions or with a norm."""

    def __init__(self, image, patch, width, kernel=None, positions=True, channels=3):
        super().__init__()
        kernel = kernel or patch
        around = kernel // 2 if kernel > patch else 0
        self.projection = nn.Conv2d(channels, width, kernel, patch, around)
        self.positions = nn.Parameter(0.02 * torch.randn((image // patch) ** 2, width)) if positions else None
        self.norm = None if positions else norm(width)

    def forward(self, images):
        tokens = self.projection(images).flatten(2).transpose(1, 2)
        return self.norm(tokens) if self.positions is None else tokens + self.positions


class Classifier(nn.Module):
    """Both streams side by side, averaged over tokens before or after the norm."""

    def __init__(self, width, classes, averages_first=True):
        super().__init__()
        self.averages_first = averages_first
        self.norm = norm(2 * width)
        self.linear = nn.Linear(2 * width, classes)

    def forward(self, x1, x2):
        if self.averages_first:
            return self.linear(self.norm(torch.cat([x1.mean(1), x2.mean(1)], -1)))
        return self.linear(self.norm(torch.cat([x1, x2], -1)).mean(1))


class ImageNetwork(nn.Module):
    """Stem, body and head for images of `self.side` pixels."""

    def streams(self, images):
        """Both begin as the stem's output."""
        x = self.stem(images)
        return x, x

    def forward(self, images):
        return self.head(*self.body(*self.streams(images)))

    def loss(self, images, labels):
        return F.cross_entropy(self(images), labels)

    def batch(self, count):
        return torch.randn(count, 3, self.side, self.side), torch.zeros(count, dtype=torch.long)

    def sizes(self):
        return {"image": self.side}

    def optimizer(self):
        return adamw(self)


def adamw(network):
    # Fused, it is one pass over weights and moments.
    return torch.optim.AdamW(network.parameters(), 1e-4, weight_decay=0.05, fused=True)
