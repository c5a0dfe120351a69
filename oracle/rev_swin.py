"""Reference values for RevSwin: loss, logits and every parameter's gradient, from PyTorch's autograd in float64.

    python oracle/rev_swin.py oracle/values

Written from the equations, with stored activations. Windows, shifts and masks are stated in another way than reprop's:
each pair of tokens is looked at by its places in the image, without rolling or cutting anything.

    Y1 = X1 + attention(X2),   Y2 = X2 + mlp(Y1)           in each stage, from X1 = X2
    x  = linear(norm(squares(mlp([Y1, Y2]))))              between stages
    logits = linear(mean over tokens of norm([Y1, Y2]))    at the end

Each case is one safetensors file: `parameters.<name>` and `images` (float32), `labels`, and `loss`, `logits`,
`gradients.<name>` (float64). Names and layouts are reprop's.
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
    channels: int
    width: int
    depths: list[int]
    heads: int
    window: int
    ratio: int
    classes: int
    batch: int
    label_smoothing: float = 0.0

    def stages(self):
        """Number, side, width, heads, window of each stage."""
        for stage in range(len(self.depths)):
            side = self.image // self.patch >> stage
            window = max(n for n in range(1, min(self.window, side) + 1) if side % n == 0)
            yield stage, side, self.width << stage, self.heads << stage, window


CASES = {
    # Sides 12, 6 and 3: several windows of 3 with shifts of 1, then one window alone.
    "rev_swin": Case(
        seed=11, image=24, patch=2, channels=3, width=8, depths=[3, 2, 1], heads=2, window=3, ratio=2, classes=5, batch=2
    ),
    # Sides 8 and 4: windows of 4 with a shift of 2, then one window alone, in spite of its second block.
    "rev_swin_two_stages": Case(
        seed=12, image=16, patch=2, channels=1, width=6, depths=[2, 2], heads=1, window=7, ratio=3, classes=4, batch=3,
        label_smoothing=0.1,
    ),
}  # fmt: skip


def parameters(case: Case, generator: torch.Generator) -> Tensors:
    made = Parameters(generator)
    for stem in ["stem.first", "stem.second"]:
        made.linear(f"{stem}.projection", case.channels * case.patch**2, case.width)
        made.norm(f"{stem}.norm", case.width)
    for stage, _, width, heads, window in case.stages():
        for block in range(case.depths[stage]):
            name = f"stages.{stage}.blocks.{block}"
            made.norm(f"{name}.attention.norm", width)
            made.linear(f"{name}.attention.qkv", width, 3 * width)
            made.normal(f"{name}.attention.bias", (2 * window - 1) ** 2, heads, deviation=0.5)
            made.linear(f"{name}.attention.projection", width, width)
            made.mlp(f"{name}.mlp", width, case.ratio * width)
        if stage + 1 < len(case.depths):
            name = f"stages.{stage}.merge"
            made.linear(f"{name}.fuse.expand", 2 * width, 2 * width)
            made.linear(f"{name}.fuse.contract", 2 * width, width)
            made.norm(f"{name}.norm", 4 * width)
            made.linear(f"{name}.reduction", 4 * width, 2 * width, bias=False)
    last = case.width << len(case.depths) - 1
    made.norm("head.norm", 2 * last)
    made.linear("head.linear", 2 * last, case.classes)
    return made.found


def pairs(side: int, window: int, shift: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each two tokens of the image, whether they see each other, and the number of their relative position.

    Shifted by `s`, the borders between windows are at `s`, `s + window`, ...: the first and the last window of a row are
    parts of one.
    """
    places = [(y, x) for y in range(side) for x in range(side)]

    def cell(n: int) -> int:
        return (n - shift) // window

    seen = torch.zeros(len(places), len(places), dtype=torch.bool)
    number = torch.zeros(len(places), len(places), dtype=torch.long)
    for i, (y, x) in enumerate(places):
        for j, (v, u) in enumerate(places):
            if (cell(y), cell(x)) == (cell(v), cell(u)):
                seen[i, j] = True
                number[i, j] = (y - v + window - 1) * (2 * window - 1) + (x - u + window - 1)
    return seen, number


class RevSwin(Layers):
    """The network as a function of its parameters."""

    def __init__(self, case: Case, parameters: Tensors) -> None:
        super().__init__(parameters)
        self.case = case

    def stem(self, name: str, images: torch.Tensor) -> torch.Tensor:
        return self.norm(f"{name}.norm", self.patches(name, images, self.case.patch).flatten(2).transpose(1, 2))

    def attention(self, name: str, x: torch.Tensor, heads: int, seen: torch.Tensor, number: torch.Tensor):
        q, k, v = (
            part.unflatten(2, (heads, -1)).transpose(1, 2)
            for part in self.linear(f"{name}.qkv", self.norm(f"{name}.norm", x)).chunk(3, dim=2)
        )
        bias = self.parameters[f"{name}.bias"][number].permute(2, 0, 1)
        scores = q @ k.transpose(2, 3) * q.shape[3] ** -0.5 + bias
        values = scores.masked_fill(~seen, float("-inf")).softmax(dim=3) @ v
        return self.linear(f"{name}.projection", values.transpose(1, 2).flatten(2))

    def merge(self, name: str, x1: torch.Tensor, x2: torch.Tensor, side: int) -> torch.Tensor:
        h = self.linear(f"{name}.fuse.expand", torch.cat([x1, x2], dim=2))
        fused = self.linear(f"{name}.fuse.contract", F.gelu(h, approximate="none")).unflatten(1, (side, side))
        squares = [fused[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        merged = torch.cat(squares, dim=3).flatten(1, 2)
        return self.linear(f"{name}.reduction", self.norm(f"{name}.norm", merged))

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        x1, x2 = self.stem("stem.first", images), self.stem("stem.second", images)
        for stage, side, _, heads, window in self.case.stages():
            for block in range(self.case.depths[stage]):
                shift = window // 2 if block % 2 == 1 and window < side else 0
                name = f"stages.{stage}.blocks.{block}"
                x1 = x1 + self.attention(f"{name}.attention", x2, heads, *pairs(side, window, shift))
                x2 = x2 + self.mlp(f"{name}.mlp", x1)
            if stage + 1 < len(self.case.depths):
                x1 = x2 = self.merge(f"stages.{stage}.merge", x1, x2, side)
        features = self.norm("head.norm", torch.cat([x1, x2], dim=2)).mean(dim=1)
        return self.linear("head.linear", features)


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
            logits = RevSwin(case, parameters).logits(batch["images"].to(dtype))
            return F.cross_entropy(logits, batch["labels"], label_smoothing=case.label_smoothing), logits

        write(name, network, values, batch)


if __name__ == "__main__":
    main()
