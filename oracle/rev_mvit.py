"""Reference values for RevMViT: loss, logits and every parameter's gradient, from PyTorch's autograd in float64.

    python oracle/rev_mvit.py oracle/values

Written from the equations, with stored activations.

    Y1 = X1 + attention(X2),   Y2 = X2 + mlp(Y1)                    in each stage, from X1 = X2
    z = fuse([Y1, Y2]),   a = pool(z) + attention(z),   x = a + mlp(a)    between stages
    logits = linear(norm(mean over tokens of [Y1, Y2]))            at the end

Queries, keys and values are pooled as images, head by head, by a depthwise 3x3 convolution and a norm; the residual path
between stages by a 3x3 maximum. Each case is one safetensors file: `parameters.<name>` and `images` (float32), `labels`,
and `loss`, `logits`, `gradients.<name>` (float64). Names and layouts are reprop's.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from reference import Layers, Parameters, Tensors, begin, write


@dataclass
class Case:
    """Settings of one network and its batch."""

    seed: int
    image: int
    patch: int
    kernel: int
    channels: int
    width: int
    depths: list[int]
    heads: int
    stride: int
    ratio: int
    classes: int
    batch: int
    label_smoothing: float = 0.0


CASES = {
    # Sides 7, 4 and 2: an odd one, and strides 4, 2 and 1.
    "rev_mvit": Case(
        seed=31, image=28, patch=4, kernel=7, channels=3, width=6, depths=[1, 2, 1], heads=1, stride=4, ratio=2, classes=5,
        batch=2,
    ),
    "rev_mvit_one_stage": Case(
        seed=32, image=12, patch=2, kernel=3, channels=1, width=8, depths=[3], heads=2, stride=2, ratio=3, classes=4,
        batch=3, label_smoothing=0.1,
    ),
}  # fmt: skip


def parameters(case: Case, generator: torch.Generator) -> Tensors:
    made = Parameters(generator)

    def pool(name: str, head: int) -> None:
        made.normal(f"{name}.weight", head, 1, 3, 3, deviation=0.4)
        made.norm(f"{name}.norm", head)

    def attention(name: str, width: int, heads: int, queries: bool) -> None:
        made.norm(f"{name}.norm", width)
        made.linear(f"{name}.qkv", width, 3 * width)
        for part in (["query_pool"] if queries else []) + ["key_pool", "value_pool"]:
            pool(f"{name}.{part}", width // heads)
        made.linear(f"{name}.projection", width, width)

    tokens = (case.image // case.patch) ** 2
    for stem in ["stem.first", "stem.second"]:
        made.linear(f"{stem}.projection", case.channels * case.kernel**2, case.width)
        made.normal(f"{stem}.positions", tokens, case.width, deviation=0.5)
    for stage, depth in enumerate(case.depths):
        width, heads = case.width << stage, case.heads << stage
        for block in range(depth):
            name = f"stages.{stage}.blocks.{block}"
            attention(f"{name}.attention", width, heads, queries=False)
            made.mlp(f"{name}.mlp", width, case.ratio * width)
        if stage + 1 < len(case.depths):
            name, wide = f"stages.{stage}.widen", 2 * width
            made.linear(f"{name}.fuse.expand", wide, wide)
            made.linear(f"{name}.fuse.contract", wide, wide)
            attention(f"{name}.attention", wide, 2 * heads, queries=True)
            made.mlp(f"{name}.mlp", wide, case.ratio * wide)
    last = case.width << len(case.depths) - 1
    made.norm("head.norm", 2 * last)
    made.linear("head.linear", 2 * last, case.classes)
    return made.found


class RevMViT(Layers):
    """The network as a function of its parameters. Between layers tokens are images `[batch, width, side, side]`."""

    def __init__(self, case: Case, parameters: Tensors) -> None:
        super().__init__(parameters)
        self.case = case

    def stem(self, name: str, images: torch.Tensor) -> torch.Tensor:
        case = self.case
        weight = self.parameters[f"{name}.projection.weight"].T
        kernel = weight.reshape(case.width, case.channels, case.kernel, case.kernel)
        bias = self.parameters[f"{name}.projection.bias"]
        grid = F.conv2d(images, kernel, bias, stride=case.patch, padding=case.kernel // 2)
        return grid.flatten(2).transpose(1, 2) + self.parameters[f"{name}.positions"]

    def pool(self, name: str, tokens: torch.Tensor, side: int, stride: int) -> torch.Tensor:
        """`[batch, side * side, head] -> [batch, fewer, head]`, of one head."""
        head = tokens.shape[2]
        image = tokens.transpose(1, 2).unflatten(2, (side, side))
        weight = self.parameters[f"{name}.weight"]
        pooled = F.conv2d(image, weight, stride=stride, padding=1, groups=head)
        return self.norm(f"{name}.norm", pooled.flatten(2).transpose(1, 2))

    def attention(self, name: str, x: torch.Tensor, side: int, heads: int, stride: int, queries: int | None):
        qkv = self.linear(f"{name}.qkv", self.norm(f"{name}.norm", x)).chunk(3, dim=2)
        values = []
        for q, k, v in zip(*(part.chunk(heads, dim=2) for part in qkv)):
            if queries is not None:
                q = self.pool(f"{name}.query_pool", q, side, queries)
            k = self.pool(f"{name}.key_pool", k, side, stride)
            v = self.pool(f"{name}.value_pool", v, side, stride)
            values.append(F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0])
        return self.linear(f"{name}.projection", torch.cat(values, dim=2))

    def widen(self, name: str, x1: torch.Tensor, x2: torch.Tensor, side: int, heads: int, stride: int) -> torch.Tensor:
        h = F.gelu(self.linear(f"{name}.fuse.expand", torch.cat([x1, x2], dim=2)), approximate="none")
        z = self.linear(f"{name}.fuse.contract", h)
        image = z.transpose(1, 2).unflatten(2, (side, side))
        pooled = F.max_pool2d(image, 3, stride=2, padding=1).flatten(2).transpose(1, 2)
        a = pooled + self.attention(f"{name}.attention", z, side, heads, stride, queries=2)
        return a + self.mlp(f"{name}.mlp", a)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        case = self.case
        x1, x2 = self.stem("stem.first", images), self.stem("stem.second", images)
        side = case.image // case.patch
        for stage, depth in enumerate(case.depths):
            heads, stride = case.heads << stage, max(case.stride >> stage, 1)
            for block in range(depth):
                name = f"stages.{stage}.blocks.{block}"
                x1 = x1 + self.attention(f"{name}.attention", x2, side, heads, stride, queries=None)
                x2 = x2 + self.mlp(f"{name}.mlp", x1)
            if stage + 1 < len(case.depths):
                after = max(case.stride >> stage + 1, 1)
                x1 = x2 = self.widen(f"stages.{stage}.widen", x1, x2, side, 2 * heads, after)
                side = (side + 1) // 2
        features = torch.cat([x1, x2], dim=2).mean(dim=1)
        return self.linear("head.linear", self.norm("head.norm", features))


def main() -> None:
    begin()
    for name, case in CASES.items():
        generator = torch.Generator().manual_seed(case.seed)
        values = parameters(case, generator)
        batch = {
            "images": torch.randn(case.batch, case.channels, case.image, case.image, generator=generator),
            "labels": torch.randint(case.classes, (case.batch,), generator=generator),
        }

        def network(parameters: Tensors, batch: Tensors, dtype: torch.dtype, case: Case = case):
            logits = RevMViT(case, parameters).logits(batch["images"].to(dtype))
            return F.cross_entropy(logits, batch["labels"], label_smoothing=case.label_smoothing), logits

        write(name, network, values, batch)


if __name__ == "__main__":
    main()
