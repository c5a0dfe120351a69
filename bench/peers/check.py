"""Whether the peer does the same work: gradients under each strategy against PyTorch's graph, small networks against the
reference values that ours are tested with, numbers of parameters against ours."""

import json

import torch

from networks import NETWORKS, STRATEGIES, RevMViT, RevResNet18, RevRoBERTa, RevSwin, RevViT
from references import check_references

# Several blocks in a run, an odd number of them, and every kind of transition.
SMALL = {
    "RevViT": lambda: RevViT(24, 3, depth=3, image=32, patch=8, classes=5),
    "RevSwin": lambda: RevSwin(12, (2, 3), 3, image=24, patch=2, window=4, classes=5),
    "RevMViT": lambda: RevMViT(12, (1, 3, 1), image=44, classes=5),
    "RevResNet-18": lambda: RevResNet18(width=4),
    "RevRoBERTa": lambda: RevRoBERTa(vocabulary=50, length=20, width=24, depth=3, heads=3, hidden=40),
}
# In double precision: recovering loses some of its sixteen digits, a mistake would lose all.
TOLERANCE = 1e-9


def check_strategies(name, network):
    batch = [part.double() if part.is_floating_point() else part for part in network.batch(2)]
    found = {}
    for strategy in STRATEGIES:
        network.zero_grad()
        network.body.strategy = strategy
        network.loss(*batch).backward()
        found[strategy] = [parameter.grad.clone() for parameter in network.parameters()]
    # Beside the largest tensor's: a bias before batch norm has no gradient but rounding.
    largest = max(gradient.norm() for gradient in found["stored"])
    for strategy in STRATEGIES[1:]:
        worst = max(((a - b).norm() / largest).item() for a, b in zip(found["stored"], found[strategy]))
        print(f"{name} {strategy}: gradients within {worst:.1e} of stored")
        assert worst < TOLERANCE


def check_parameters(listing):
    ours = {}
    if listing:
        with open(listing) as file:
            ours = {model["name"]: model["parameters"] for model in json.load(file)}
    for name, make in NETWORKS.items():
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in make().parameters())
        print(f"{name}: {count} parameters" + (f", ours {ours[name]}" if ours else ""))
        assert not ours or count == ours[name]


def check(listing=None):
    torch.manual_seed(1)
    for name, make in SMALL.items():
        check_strategies(name, make().double())
    check_references()
    check_parameters(listing)
