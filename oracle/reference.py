"""What the scripts of transformers share: parameters, layers, and the file that a case becomes.

Layers are PyTorch's own. Parameters are far from their initial values: gains away from 1, shifts and biases away from 0.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

EPSILON = 1e-6
# Gradients that are zero by symmetry are compared with this.
FLOOR = 1e-2

Tensors = dict[str, torch.Tensor]


class Parameters:
    """Random parameters by name."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.found: Tensors = {}

    def normal(self, name: str, *shape: int, deviation: float, mean: float = 0.0) -> None:
        self.found[name] = mean + deviation * torch.randn(*shape, generator=self.generator)

    def linear(self, name: str, inputs: int, outputs: int, bias: bool = True) -> None:
        # Outputs of about the inputs' size, so that attention is far from uniform and GELU far from linear.
        self.normal(f"{name}.weight", inputs, outputs, deviation=inputs**-0.5)
        if bias:
            self.normal(f"{name}.bias", outputs, deviation=0.3)

    def norm(self, name: str, width: int) -> None:
        self.normal(f"{name}.gamma", width, deviation=0.3, mean=1.0)
        self.normal(f"{name}.beta", width, deviation=0.3)

    def mlp(self, name: str, width: int, hidden: int) -> None:
        self.norm(f"{name}.norm", width)
        self.linear(f"{name}.expand", width, hidden)
        self.linear(f"{name}.contract", hidden, width)


class Layers:
    """Layers as functions of parameters. A linear layer's weight is `[inputs, outputs]`."""

    def __init__(self, parameters: Tensors) -> None:
        self.parameters = parameters

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.parameters[f"{name}.weight"].T, self.parameters.get(f"{name}.bias"))

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        gamma, beta = self.parameters[f"{name}.gamma"], self.parameters[f"{name}.beta"]
        return F.layer_norm(x, gamma.shape, gamma, beta, EPSILON)

    def mlp(self, name: str, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(f"{name}.expand", self.norm(f"{name}.norm", x))
        return self.linear(f"{name}.contract", F.gelu(h, approximate="none"))

    def patches(self, name: str, images: torch.Tensor, patch: int) -> torch.Tensor:
        """`[batch, channels, image, image] -> [batch, width, grid, grid]`"""
        weight = self.parameters[f"{name}.projection.weight"]
        kernel = weight.T.reshape(weight.shape[1], images.shape[1], patch, patch)
        return F.conv2d(images, kernel, self.parameters[f"{name}.projection.bias"], stride=patch)


# From parameters, batch and dtype to the loss and the logits.
Network = Callable[[Tensors, Tensors, torch.dtype], tuple[torch.Tensor, torch.Tensor]]


def run(network: Network, values: Tensors, batch: Tensors, dtype: torch.dtype) -> Tensors:
    """Loss, logits and gradients, all computed in `dtype`."""
    leaves = {name: value.to(dtype, copy=True).requires_grad_() for name, value in values.items()}
    loss, logits = network(leaves, batch, dtype)
    loss.backward()
    outputs = {"loss": loss.detach().reshape(1), "logits": logits.detach()}
    return outputs | {f"gradients.{name}": leaf.grad for name, leaf in leaves.items()}


def write(name: str, network: Network, values: Tensors, batch: Tensors) -> None:
    """Writes one case into the folder that the command line names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    exact = run(network, values, batch, torch.float64)
    rounded = run(network, values, batch, torch.float32)
    worst = max(((rounded[key] - exact[key]).abs().max() / exact[key].abs().max().clamp(min=FLOOR)).item() for key in exact)
    tensors = {f"parameters.{key}": value for key, value in values.items()} | batch | exact
    path = folder / f"{name}.safetensors"
    save_file({key: value.contiguous() for key, value in tensors.items()}, path)
    loss = exact["loss"].item()
    print(f"{path}: {path.stat().st_size} bytes, loss {loss:.6f}, float32 differs by {worst:.1e}")


def begin() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}")
