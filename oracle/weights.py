"""Files of weights as PyTorch writes them, and what a network with these weights says.

    python oracle/weights.py     # writes crates/reprop-data/tests/files/views.pt, crates/reprop-cli/tests/files/rev_vit.*

`views.pt` has tensors that share bytes, are turned, of 64 bits, of whole numbers. `rev_vit.pt` and `rev_vit.safetensors` hold
the state dictionary of a small reversible vision transformer whose modules are named as in the authors' small program;
`rev_vit_values.safetensors` has images and the logits of that network in float64. Made with PyTorch 2.15.
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

ROOT = pathlib.Path(__file__).parent.parent / "crates"
WIDTH, HEADS, DEPTH, IMAGE, PATCH, CLASSES = 8, 2, 2, 8, 4, 5


class F(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x):
        n = self.norm(x)
        return self.attn(n, n, n)[0]


class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        return self.mlp(self.norm(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.F = F()
        self.G = G()


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.patch_embed = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.pos_embeddings = nn.Parameter(torch.zeros(1, (IMAGE // PATCH) ** 2, WIDTH))
        self.head = nn.Linear(2 * WIDTH, CLASSES)
        self.norm = nn.LayerNorm(2 * WIDTH, eps=1e-6)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2) + self.pos_embeddings
        x1, x2 = x, x
        for block in self.layers:
            x1 = x1 + block.F(x2)
            x2 = x2 + block.G(x1)
        return self.head(self.norm(torch.cat([x1, x2], -1).mean(1)))


plain = torch.arange(6).float().reshape(2, 3) * 0.5
views = {
    "plain": plain,
    "turned": plain.t(),
    "part": plain[1],
    "double": torch.tensor([1.25, -2.5], dtype=torch.float64),
    "scalar": torch.tensor(7.0),
    "count": torch.tensor(3),
}
for folder in ("reprop-data", "reprop-cli"):
    (ROOT / folder / "tests/files").mkdir(parents=True, exist_ok=True)
torch.save({"epoch": 3, "state_dict": views}, ROOT / "reprop-data/tests/files/views.pt")

torch.manual_seed(5)
network = Network()
with torch.no_grad():
    for parameter in network.parameters():
        parameter.copy_(torch.randn_like(parameter) * 0.4)
images = torch.randn(3, 3, IMAGE, IMAGE)
torch.save(network.state_dict(), ROOT / "reprop-cli/tests/files/rev_vit.pt")
save_file(dict(network.state_dict()), ROOT / "reprop-cli/tests/files/rev_vit.safetensors")
with torch.no_grad():
    logits = network.double()(images.double())
save_file({"images": images, "logits": logits}, ROOT / "reprop-cli/tests/files/rev_vit_values.safetensors")
