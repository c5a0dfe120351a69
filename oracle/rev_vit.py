"""Reference values for RevViT: loss, logits and every parameter's gradient, from PyTorch's autograd in float64.

    python oracle/rev_vit.py oracle/values

Written from the equations, with PyTorch's own operations and stored activations; nothing is reversed here.

    Y1 = X1 + attention(X2),   Y2 = X2 + mlp(Y1),   logits = linear(norm(mean over tokens of [Y1, Y2]))

Each case is one safetensors file: `parameters.<name>` and `images` (float32), `labels`, `hidden_keys` (in the case that
has them), and `loss`, `logits`, `gradients.<name>` (float64). Names and layouts are reprop's: a linear layer's weight is
`[inputs, outputs]`, and the patch convolution's is `[channels * patch * patch, width]`.

Printed for each case: the largest difference between PyTorch's own float32 and float64, relative to each tensor's
largest value. That is what rounding alone does to these numbers.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

EPSILON = 1e-6


@dataclass
class Case:
    """Settings of one network and its batch."""

    seed: int
    image: int
    patch: int
    channels: int
    width: int
    depth: int
    heads: int
    hidden: int
    classes: int
    batch: int
    label_smoothing: float = 0.0
    # Each stream begins with a stem of its own: the streams are unequal from the start, and their gradients do not meet.
    two_stems: bool = False
    # Some keys of each sample are hidden from all queries.
    hidden_keys: bool = False

    @property
    def tokens(self) -> int:
        return (self.image // self.patch) ** 2


CASES = {
    "rev_vit": Case(seed=1, image=8, patch=2, channels=3, width=16, depth=3, heads=2, hidden=32, classes=5, batch=3),
    "rev_vit_one_block": Case(
        seed=2, image=6, patch=3, channels=1, width=8, depth=1, heads=1, hidden=24, classes=3, batch=1
    ),
    "rev_vit_two_stems": Case(
        seed=3, image=8, patch=4, channels=2, width=12, depth=4, heads=3, hidden=20, classes=7, batch=4,
        label_smoothing=0.1, two_stems=True, hidden_keys=True,
    ),
}  # fmt: skip


def parameters(case: Case, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Parameters far from their initial values: gains away from 1, shifts and biases away from 0."""

    def normal(*shape: int, deviation: float, mean: float = 0.0) -> torch.Tensor:
        return mean + deviation * torch.randn(*shape, generator=generator)

    found = {}

    def linear(name: str, inputs: int, outputs: int) -> None:
        # Outputs of about the inputs' size, so that attention is far from uniform and GELU far from linear.
        found[f"{name}.weight"] = normal(inputs, outputs, deviation=inputs**-0.5)
        found[f"{name}.bias"] = normal(outputs, deviation=0.3)

    def norm(name: str, width: int) -> None:
        found[f"{name}.gamma"] = normal(width, deviation=0.3, mean=1.0)
        found[f"{name}.beta"] = normal(width, deviation=0.3)

    for stem in stems(case):
        linear(f"{stem}.projection", case.channels * case.patch**2, case.width)
        found[f"{stem}.positions"] = normal(case.tokens, case.width, deviation=0.5)
    for block in range(case.depth):
        norm(f"blocks.{block}.attention.norm", case.width)
        linear(f"blocks.{block}.attention.qkv", case.width, 3 * case.width)
        linear(f"blocks.{block}.attention.projection", case.width, case.width)
        norm(f"blocks.{block}.mlp.norm", case.width)
        linear(f"blocks.{block}.mlp.expand", case.width, case.hidden)
        linear(f"blocks.{block}.mlp.contract", case.hidden, case.width)
    norm("head.norm", 2 * case.width)
    linear("head.linear", 2 * case.width, case.classes)
    return found


def stems(case: Case) -> list[str]:
    return ["stem.first", "stem.second"] if case.two_stems else ["stem"]


class RevViT:
    """The network as a function of its parameters."""

    def __init__(self, case: Case, parameters: dict[str, torch.Tensor]) -> None:
        self.case = case
        self.parameters = parameters

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.parameters[f"{name}.weight"].T, self.parameters[f"{name}.bias"])

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        gamma, beta = self.parameters[f"{name}.gamma"], self.parameters[f"{name}.beta"]
        return F.layer_norm(x, gamma.shape, gamma, beta, EPSILON)

    def stem(self, name: str, images: torch.Tensor) -> torch.Tensor:
        case = self.case
        weight = self.parameters[f"{name}.projection.weight"].T
        kernel = weight.reshape(case.width, case.channels, case.patch, case.patch)
        grid = F.conv2d(images, kernel, self.parameters[f"{name}.projection.bias"], stride=case.patch)
        return grid.flatten(2).transpose(1, 2) + self.parameters[f"{name}.positions"]

    def attention(self, name: str, x: torch.Tensor, hidden: torch.Tensor | None) -> torch.Tensor:
        def heads(part: torch.Tensor) -> torch.Tensor:
            return part.unflatten(2, (self.case.heads, -1)).transpose(1, 2)

        q, k, v = self.linear(f"{name}.qkv", self.norm(f"{name}.norm", x)).chunk(3, dim=2)
        seen = None if hidden is None else ~hidden[:, None, None, :]
        values = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=seen)
        return self.linear(f"{name}.projection", values.transpose(1, 2).flatten(2))

    def mlp(self, name: str, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(f"{name}.expand", self.norm(f"{name}.norm", x))
        return self.linear(f"{name}.contract", F.gelu(h, approximate="none"))

    def logits(self, images: torch.Tensor, hidden: torch.Tensor | None) -> torch.Tensor:
        tokens = [self.stem(name, images) for name in stems(self.case)]
        x1, x2 = tokens[0], tokens[-1]
        for block in range(self.case.depth):
            x1 = x1 + self.attention(f"blocks.{block}.attention", x2, hidden)
            x2 = x2 + self.mlp(f"blocks.{block}.mlp", x1)
        features = torch.cat([x1, x2], dim=2).mean(dim=1)
        return self.linear("head.linear", self.norm("head.norm", features))


def run(case: Case, batch: dict[str, torch.Tensor], values: dict[str, torch.Tensor], dtype: torch.dtype):
    """Loss, logits and gradients, all computed in `dtype`."""
    leaves = {name: value.to(dtype, copy=True).requires_grad_() for name, value in values.items()}
    logits = RevViT(case, leaves).logits(batch["images"].to(dtype), batch.get("hidden_keys"))
    loss = F.cross_entropy(logits, batch["labels"], label_smoothing=case.label_smoothing)
    loss.backward()
    outputs = {"loss": loss.detach().reshape(1), "logits": logits.detach()}
    return outputs | {f"gradients.{name}": leaf.grad for name, leaf in leaves.items()}


def make(case: Case) -> tuple[dict[str, torch.Tensor], float]:
    generator = torch.Generator().manual_seed(case.seed)
    values = parameters(case, generator)
    batch = {
        "images": torch.randn(case.batch, case.channels, case.image, case.image, generator=generator),
        "labels": torch.randint(case.classes, (case.batch,), generator=generator),
    }
    if case.hidden_keys:
        batch["hidden_keys"] = torch.rand(case.batch, case.tokens, generator=generator) < 0.4
        batch["hidden_keys"][:, 0] = False  # Every sample keeps a key.
        assert batch["hidden_keys"].any()
    exact = run(case, batch, values, torch.float64)
    rounded = run(case, batch, values, torch.float32)
    worst = max(((rounded[name] - exact[name]).abs().max() / exact[name].abs().max()).item() for name in exact)
    return {f"parameters.{name}": value for name, value in values.items()} | batch | exact, worst


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        tensors, worst = make(case)
        tensors = {key: value.contiguous() for key, value in tensors.items()}
        path = folder / f"{name}.safetensors"
        save_file(tensors, path)
        print(f"{path}: {path.stat().st_size} bytes, loss {tensors['loss'].item():.6f}, float32 differs by {worst:.1e}")


if __name__ == "__main__":
    main()
