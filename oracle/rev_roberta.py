"""Reference values for RevRoBERTa: loss, logits and every parameter's gradient, from PyTorch's autograd in float64.

    python oracle/rev_roberta.py oracle/values

Written from the equations, with stored activations.

    X1 = E[token] + P[place],   X2 = the same
    Y1 = X1 + attention(X2),   Y2 = X2 + mlp(Y1)
    logits = norm(gelu(linear(norm((Y1 + Y2) / 2)))) E^T + b,   of the tokens asked for

Each case is one safetensors file: `parameters.<name>` (float32), `tokens`, `targets` (-100 where nothing is asked),
`hidden_keys`, and `loss`, `logits`, `gradients.<name>` (float64). Names and layouts are reprop's.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from reference import Layers, Parameters, Tensors, begin, write


@dataclass
class Case:
    """Settings of one network and its batch."""

    seed: int
    vocabulary: int
    length: int
    places: int
    width: int
    depth: int
    heads: int
    hidden: int
    batch: int


CASES = {
    "rev_roberta": Case(
        seed=21, vocabulary=29, length=11, places=11, width=12, depth=3, heads=3, hidden=20, batch=4
    ),
    # Sequences shorter than the network's.
    "rev_roberta_short": Case(
        seed=22, vocabulary=17, length=9, places=6, width=8, depth=2, heads=2, hidden=24, batch=3
    ),
}  # fmt: skip


def parameters(case: Case, generator: torch.Generator) -> Tensors:
    made = Parameters(generator)
    made.normal("text.tokens", case.vocabulary, case.width, deviation=0.7)
    made.normal("text.positions", case.length, case.width, deviation=0.5)
    made.norm("text.norm", case.width)
    made.linear("text.dense", case.width, case.width)
    made.norm("text.dense_norm", case.width)
    made.normal("text.bias", case.vocabulary, deviation=0.3)
    for block in range(case.depth):
        made.norm(f"blocks.{block}.attention.norm", case.width)
        made.linear(f"blocks.{block}.attention.qkv", case.width, 3 * case.width)
        made.linear(f"blocks.{block}.attention.projection", case.width, case.width)
        made.mlp(f"blocks.{block}.mlp", case.width, case.hidden)
    return made.found


class RevRoberta(Layers):
    """The network as a function of its parameters."""

    def __init__(self, case: Case, parameters: Tensors) -> None:
        super().__init__(parameters)
        self.case = case

    def attention(self, name: str, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        def heads(part: torch.Tensor) -> torch.Tensor:
            return part.unflatten(2, (self.case.heads, -1)).transpose(1, 2)

        q, k, v = self.linear(f"{name}.qkv", self.norm(f"{name}.norm", x)).chunk(3, dim=2)
        seen = ~hidden[:, None, None, :]
        values = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=seen)
        return self.linear(f"{name}.projection", values.transpose(1, 2).flatten(2))

    def logits(self, tokens: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        table = self.parameters["text.tokens"]
        x1 = x2 = F.embedding(tokens, table) + self.parameters["text.positions"][: tokens.shape[1]]
        for block in range(self.case.depth):
            x1 = x1 + self.attention(f"blocks.{block}.attention", x2, hidden)
            x2 = x2 + self.mlp(f"blocks.{block}.mlp", x1)
        h = self.linear("text.dense", self.norm("text.norm", (x1 + x2) / 2))
        features = self.norm("text.dense_norm", F.gelu(h, approximate="none"))
        return features @ table.T + self.parameters["text.bias"]


def main() -> None:
    begin()
    for name, case in CASES.items():
        generator = torch.Generator().manual_seed(case.seed)
        values = parameters(case, generator)
        shape = (case.batch, case.places)
        tokens = torch.randint(case.vocabulary, shape, generator=generator)
        # The last places of all sequences but the first are padding.
        ends = case.places - torch.arange(case.batch) % 3
        hidden = torch.arange(case.places) >= ends[:, None]
        asked = (torch.rand(shape, generator=generator) < 0.4) & ~hidden
        targets = torch.where(asked, torch.randint(case.vocabulary, shape, generator=generator), -100)
        assert asked.any() and hidden.any() and not asked.all()
        batch = {"tokens": tokens, "targets": targets, "hidden_keys": hidden}

        def network(parameters: Tensors, batch: Tensors, dtype: torch.dtype, case: Case = case):
            logits = RevRoberta(case, parameters).logits(batch["tokens"], batch["hidden_keys"])
            loss = F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=-100)
            return loss, logits[batch["targets"] != -100]

        write(name, network, values, batch)


if __name__ == "__main__":
    main()
