"""Small networks of the peer against `oracle/values`, which our own networks are tested with.

Loss and all gradients of networks of images: there the references have a stem for each stream, where they can, so that
streams begin unequal. RevRoBERTa's references have padding, which the peer leaves out: scores of the first sequence, which
has none, are compared.
"""

import copy
import json
import re
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from networks import RevMViT, RevRoBERTa, RevSwin, RevViT

VALUES = Path(__file__).resolve().parents[2] / "oracle" / "values"
DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "BOOL": torch.bool}
# Parameters are floats, and everything is computed from them in double precision on both sides.
TOLERANCE = 1e-9


def stages(depths, transition):
    """The references' names of blocks and transitions, in the order of the peer's body."""
    for stage, depth in enumerate(depths):
        yield from (f"stages.{stage}.blocks.{block}" for block in range(depth))
        yield f"stages.{stage}.{transition}"


def images():
    """Name, network, names of the body's places, label smoothing."""
    yield "rev_vit", RevViT(16, 2, 3, 8, 2, 32, 5), [f"blocks.{n}" for n in range(3)], 0.0
    for name, depths, smoothing, network in (
        ("rev_swin", (3, 2, 1), 0.0, RevSwin(8, (3, 2, 1), 2, 24, 2, 3, 2, 5)),
        ("rev_swin_two_stages", (2, 2), 0.1, RevSwin(6, (2, 2), 1, 16, 2, 7, 3, 4, channels=1)),
    ):
        yield name, network, list(stages(depths, "merge")), smoothing
    for name, depths, smoothing, network in (
        ("rev_mvit", (1, 2, 1), 0.0, RevMViT(6, (1, 2, 1), 1, 28, 4, 7, 4, 2, 5)),
        ("rev_mvit_one_stage", (3,), 0.1, RevMViT(8, (3,), 2, 12, 2, 3, 2, 3, 4, channels=1)),
    ):
        yield name, network, list(stages(depths, "widen")), smoothing


def read(name):
    """The tensors of a safetensors file: the header's length, the header, the bytes it points into."""
    data = (VALUES / f"{name}.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for key, entry in json.loads(data[8:start]).items():
        if key != "__metadata__":
            first, last = (start + offset for offset in entry["data_offsets"])
            flat = torch.frombuffer(bytearray(data[first:last]), dtype=DTYPES[entry["dtype"]])
            found[key] = flat.view(entry["shape"])
    return found


def named(network, rename):
    """Each parameter with the reference's name for it, and whether its matrix is kept the other way round there."""
    for path, module in network.named_modules():
        for own, parameter in module.named_parameters(recurse=False):
            if isinstance(module, nn.LayerNorm):
                own = {"weight": "gamma", "bias": "beta"}[own]
            turned = own == "weight" and isinstance(module, (nn.Linear, nn.Conv2d))
            yield parameter, rename(f"{path}.{own}" if path else own), turned


def like(parameter, value, turned):
    return (value.T if turned else value).reshape(parameter.shape)


@torch.no_grad()
def load(network, rename, values):
    expected = {key for key in values if key.startswith("parameters.")}
    for parameter, name, turned in named(network, rename):
        parameter.copy_(like(parameter, values[f"parameters.{name}"], turned))
        expected.remove(f"parameters.{name}")
    assert not expected, expected


def difference(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


def check_images(name, network, places, smoothing):
    values = read(name)
    if "parameters.stem.second.projection.weight" in values:
        first, second = network.stem, copy.deepcopy(network.stem)
        network.stem = nn.ModuleDict({"first": first, "second": second})
        network.streams = lambda images: (first(images), second(images))

    def rename(path):
        path = re.sub(r"body\.blocks\.(\d+)", lambda match: places[int(match[1])], path)
        return path.replace(".f.", ".attention.").replace(".g.", ".mlp.")

    network.double()
    load(network, rename, values)
    # Forward without a graph, backward on one: what either way computes is compared.
    network.body.strategy = "reprop"
    loss = F.cross_entropy(network(values["images"].double()), values["labels"], label_smoothing=smoothing)
    loss.backward()
    largest = max(value.norm() for key, value in values.items() if key.startswith("gradients."))
    gradients = (
        ((parameter.grad - like(parameter, values[f"gradients.{name}"], turned)).norm() / largest).item()
        for parameter, name, turned in named(network, rename)
    )
    return max(difference(loss, values["loss"][0]), *gradients)


def check_text():
    values = read("rev_roberta_short")
    network = RevRoBERTa(vocabulary=17, length=9, width=8, depth=2, heads=2, hidden=24).double()

    def rename(path):
        if path.startswith("body."):
            return path[len("body.") :].replace(".f.", ".attention.").replace(".g.", ".mlp.")
        return f"text.{path}"

    load(network, rename, values)
    assert not values["hidden_keys"][0].any()
    scores = network.scores(values["tokens"][:1], values["targets"][:1])
    return difference(scores, values["logits"][: len(scores)])


def check_references():
    for name, *case in images():
        worst = check_images(name, *case)
        print(f"{name}: loss and gradients within {worst:.1e} of the reference")
        assert worst < TOLERANCE
    worst = check_text()
    print(f"rev_roberta_short: scores within {worst:.1e} of the reference")
    assert worst < TOLERANCE
