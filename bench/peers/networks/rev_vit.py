"""RevViT: equal streams, couplings of attention and perceptron."""

from .layers import Attention, Classifier, ImageNetwork, Mlp, Patches
from .reversible import Body, Coupling


class RevViT(ImageNetwork):
    def __init__(self, width, heads, depth=12, image=224, patch=16, hidden=None, classes=1000, channels=3):
        super().__init__()
        self.side = image
        self.stem = Patches(image, patch, width, channels=channels)
        self.body = Body(Coupling(Attention(width, heads), Mlp(width, hidden or 4 * width)) for _ in range(depth))
        self.head = Classifier(width, classes)
