"""Reference values of small RevResNets: python rev_resnet.py FOLDER

Written from the equations of the paper (Rivaud et al., PETRA, 2024) and on PyTorch's own operations, with autograd and
stored activations. Tensors are named as reprop names them; filters are [height, width, inputs, outputs].

ReLU has two slopes: a pre-activation so close to zero that rounding changes its sign would change gradients by as much as
it likes. Seeds are searched until all pre-activations keep a distance, which is printed.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

EPSILON = 1e-5
MOMENTUM = 0.1
FLOOR = 1e-2
RUNNING = ("running_mean", "running_var")


@dataclass(frozen=True)
class Case:
    blocks: tuple[int, ...]
    bottleneck: bool
    width: int
    image: int
    channels: int
    classes: int
    batch: int
    label_smoothing: float
    distance: float  # Of every pre-activation from zero, and of a window's largest value from its second.


CASES = {
    "rev_resnet": Case((3, 2), False, 3, 6, 2, 4, 3, 0.0, 3e-4),
    "rev_resnet_bottleneck": Case((2, 3), True, 2, 5, 3, 5, 3, 0.1, 3e-4),
    "rev_resnet_large_image": Case((1, 1), False, 1, 66, 1, 3, 2, 0.0, 2e-5),
}


@dataclass(frozen=True)
class Layer:
    """A convolution and a norm."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int = 1


def branch(name: str, case: Case, width: int, inner: int, before: int, stride: int) -> list[Layer]:
    if case.bottleneck:
        shapes = [(before, inner, 1, 1), (inner, inner, 3, stride), (inner, width, 1, 1)]
    else:
        shapes = [(before, width, 3, stride), (width, width, 3, 1)]
    return [Layer(f"{name}.layers.{i}", *shape) for i, shape in enumerate(shapes)]


class RevResNet:
    """The network as a function of its parameters. `training` decides whose statistics the norms take."""

    def __init__(self, case: Case, values: dict[str, torch.Tensor], training: bool) -> None:
        self.case, self.values, self.training = case, values, training
        self.distance = float("inf")
        self.statistics: dict[str, torch.Tensor] = {}

    def unit(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        value = lambda name: self.values[f"{layer.name}.{name}"]
        filters = value("conv.weight").permute(3, 2, 0, 1)
        c = F.conv2d(x, filters, value("conv.bias"), stride=layer.stride, padding=layer.kernel // 2)
        mean, variance = (value(f"norm.{name}").detach().clone() for name in RUNNING)
        gamma, beta = value("norm.gamma"), value("norm.beta")
        z = F.batch_norm(c, mean, variance, gamma, beta, self.training, MOMENTUM, EPSILON)
        self.statistics |= {f"{layer.name}.norm.{name}": s for name, s in zip(RUNNING, (mean, variance))}
        return z

    def relu(self, z: torch.Tensor) -> torch.Tensor:
        self.distance = min(self.distance, z.detach().abs().min().item())
        return F.relu(z)

    def row(self, layers: list[Layer], x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = self.relu(self.unit(layer, x))
        return x

    def pool(self, x: torch.Tensor) -> torch.Tensor:
        windows = F.unfold(x.detach().flatten(0, 1)[:, None], 2, stride=2)
        first, second = windows.topk(2, dim=1).values.unbind(1)
        gaps = (first - second)[first > 0]
        self.distance = min(self.distance, gaps.min().item())
        return F.max_pool2d(x, 2)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        case = self.case
        x = self.relu(self.unit(stem(case), images))
        if case.image > 64:
            x = self.pool(x)
        other, x = x.chunk(2, dim=1)  # x~ and x
        for down, blocks in stages(case):
            if down is not None:
                layers, shortcut, carry = down
                if carry is None:
                    h = self.unit(layers[0], x)
                    other, x = h, self.unit(shortcut, other) + self.row(layers[1:], self.relu(h))
                else:
                    other, x = self.unit(carry, x), self.unit(shortcut, other) + self.row(layers, x)
            for layers in blocks:
                other, x = x, other + self.row(layers, x)
        means = torch.cat([other, x], dim=1).mean(dim=(2, 3))
        return F.linear(means, self.values["head.linear.weight"].T, self.values["head.linear.bias"])


def stem(case: Case) -> Layer:
    kernel, stride = (7, 2) if case.image > 64 else (3, 1)
    return Layer("stem.layer", case.channels, 2 * case.width, kernel, stride)


def stages(case: Case) -> list[tuple[tuple[list[Layer], Layer, Layer | None] | None, list[list[Layer]]]]:
    """The first block of each stage, where it changes shapes, and the reversible ones."""
    found, before = [], case.width
    for index, count in enumerate(case.blocks):
        inner, stride = case.width << index, 1 if index == 0 else 2
        width = 4 * inner if case.bottleneck else inner
        name, down = f"stages.{index}", None
        if before != width or stride != 1:
            point = lambda part: Layer(f"{name}.down.{part}", before, width, 1, stride)
            layers = branch(f"{name}.down.branch", case, width, inner, before, stride)
            down = (layers, point("shortcut"), point("carry") if case.bottleneck else None)
            count -= 1
        blocks = [branch(f"{name}.blocks.{i}.f", case, width, inner, width, 1) for i in range(count)]
        found.append((down, blocks))
        before = width
    return found


def layers(case: Case) -> list[Layer]:
    found = [stem(case)]
    for down, blocks in stages(case):
        if down is not None:
            found += down[0] + [layer for layer in down[1:] if layer is not None]
        found += [layer for block in blocks for layer in block]
    return found


def parameters(case: Case, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Far from initial values: gains away from 1, biases and running means away from 0."""
    normal = lambda *shape: torch.randn(*shape, generator=generator)
    values = {}
    for layer in layers(case):
        shape = (layer.kernel, layer.kernel, layer.inputs, layer.outputs)
        values[f"{layer.name}.conv.weight"] = normal(*shape) / (layer.kernel**2 * layer.inputs) ** 0.5
        values[f"{layer.name}.conv.bias"] = 0.3 * normal(layer.outputs)
        values[f"{layer.name}.norm.gamma"] = 1 + 0.3 * normal(layer.outputs)
        values[f"{layer.name}.norm.beta"] = 0.3 * normal(layer.outputs)
        values[f"{layer.name}.norm.running_mean"] = 0.5 * normal(layer.outputs)
        values[f"{layer.name}.norm.running_var"] = 0.5 + torch.rand(layer.outputs, generator=generator)
    width = (4 if case.bottleneck else 1) * (case.width << (len(case.blocks) - 1))
    values["head.linear.weight"] = normal(2 * width, case.classes) / (2 * width) ** 0.5
    values["head.linear.bias"] = 0.3 * normal(case.classes)
    return values


def run(case: Case, batch: dict[str, torch.Tensor], values: dict[str, torch.Tensor], dtype: torch.dtype):
    """Everything computed in `dtype`, and the distance of pre-activations from zero."""
    def leaf(name: str, value: torch.Tensor) -> torch.Tensor:
        return value.to(dtype, copy=True).requires_grad_(not name.endswith(RUNNING))

    outputs, distance = {}, float("inf")
    for prefix, training in [("", True), ("evaluation.", False)]:
        leaves = {name: leaf(name, value) for name, value in values.items()}
        network = RevResNet(case, leaves, training)
        logits = network.logits(batch["images"].to(dtype))
        loss = F.cross_entropy(logits, batch["labels"], label_smoothing=case.label_smoothing)
        loss.backward()
        outputs |= {f"{prefix}loss": loss.detach().reshape(1), f"{prefix}logits": logits.detach()}
        for name, value in leaves.items():
            if value.grad is not None:
                gradient = value.grad
                # A norm over the batch takes out what is added to all pixels: the rest is rounding.
                if training and name.endswith("conv.bias"):
                    assert gradient.abs().max() < (1e-13 if dtype == torch.float64 else 1e-4)
                    gradient = torch.zeros_like(gradient)
                outputs[f"{prefix}gradients.{name}"] = gradient
        if training:
            outputs |= {f"statistics.{name}": value for name, value in network.statistics.items()}
        distance = min(distance, network.distance)
    return outputs, distance


def make(case: Case):
    for seed in range(100_000):
        generator = torch.Generator().manual_seed(seed)
        values = parameters(case, generator)
        batch = {
            "images": torch.randn(case.batch, case.channels, case.image, case.image, generator=generator),
            "labels": torch.randint(case.classes, (case.batch,), generator=generator),
        }
        exact, distance = run(case, batch, values, torch.float64)
        if distance >= case.distance:
            break
    else:
        raise SystemExit("no seed keeps the distance")
    rounded, _ = run(case, batch, values, torch.float32)
    # Some gradients are zero but for rounding, as a norm takes out what its input gained: they are measured by the others.
    largest = max(exact[name].abs().max() for name in exact if "gradients." in name)
    scale = lambda name: torch.maximum(exact[name].abs().max(), FLOOR * largest)
    worst = max(((rounded[name] - exact[name]).abs().max() / scale(name)).item() for name in exact)
    tensors = {f"parameters.{name}": value for name, value in values.items()} | batch | exact
    return tensors, worst, distance, seed


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        tensors, worst, distance, seed = make(case)
        path = folder / f"{name}.safetensors"
        save_file({key: value.contiguous() for key, value in tensors.items()}, path)
        loss = tensors["loss"].item()
        print(f"{path}: {path.stat().st_size} bytes, loss {loss:.6f}, float32 differs by {worst:.1e}, "
              f"distance {distance:.1e}, seed {seed}")


if __name__ == "__main__":
    main()
