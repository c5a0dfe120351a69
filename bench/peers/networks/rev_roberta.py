"""RevRoBERTa: a masked language model whose table of tokens also scores them.

Tokens and targets are those of the example `steps` of `reprop-models`: 128 of the 512 places that the network has, no
padding, and one token in seven asked for. Only rows asked for go through the head, as there.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .layers import Attention, Mlp, adamw, norm
from .reversible import Body, Coupling

PLACES = 128
ASKED = 7
# The target of a token that is not asked for.
NOT_ASKED = -100


class RevRoBERTa(nn.Module):
    def __init__(self, vocabulary=50265, length=512, width=768, depth=12, heads=12, hidden=3072):
        super().__init__()
        self.tokens = nn.Parameter(0.02 * torch.randn(vocabulary, width))
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.body = Body(Coupling(Attention(width, heads), Mlp(width, hidden)) for _ in range(depth))
        self.norm = norm(width)
        self.dense = nn.Linear(width, width)
        self.dense_norm = norm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def scores(self, tokens, targets):
        """Of the tokens asked for, `[asked, vocabulary]`."""
        x = F.embedding(tokens, self.tokens) + self.positions[: tokens.shape[1]]
        x1, x2 = self.body(x, x)
        asked = (targets.flatten() != NOT_ASKED).nonzero().squeeze(1)
        rows = (x1.flatten(0, 1).index_select(0, asked) + x2.flatten(0, 1).index_select(0, asked)) / 2
        features = self.dense_norm(F.gelu(self.dense(self.norm(rows))))
        return F.linear(features, self.tokens, self.bias)

    def loss(self, tokens, targets):
        return F.cross_entropy(self.scores(tokens, targets), targets[targets != NOT_ASKED])

    def batch(self, count):
        def token(index):
            return ((index * 0x9E3779B97F4A7C15) % 2**64 >> 40) % len(self.tokens)

        places = min(PLACES, len(self.positions))
        size = count * places
        tokens = [token(index) for index in range(size)]
        targets = [token(index + size) if index % ASKED == 0 else NOT_ASKED for index in range(size)]
        return torch.tensor(tokens).view(count, places), torch.tensor(targets).view(count, places)

    def sizes(self):
        return {"tokens": min(PLACES, len(self.positions))}

    def optimizer(self):
        return adamw(self)
