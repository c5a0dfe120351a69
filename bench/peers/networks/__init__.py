"""The networks of the comparison by the names that `reprop` has for them; one file a family."""

from .reversible import STRATEGIES
from .rev_mvit import RevMViT
from .rev_resnet import RevResNet18
from .rev_roberta import RevRoBERTa
from .rev_swin import RevSwin
from .rev_vit import RevViT

NETWORKS = {
    "rev-vit-ti": lambda: RevViT(192, 3),
    "rev-vit-s": lambda: RevViT(384, 6),
    "rev-vit-b": lambda: RevViT(768, 12),
    "rev-swin-t": lambda: RevSwin(96, (2, 2, 6, 2), 3),
    "rev-mvit-b": lambda: RevMViT(96, (1, 1, 10, 1)),
    "rev-resnet-18": RevResNet18,
    "rev-roberta-base": RevRoBERTa,
}

__all__ = ["NETWORKS", "STRATEGIES", "RevMViT", "RevResNet18", "RevRoBERTa", "RevSwin", "RevViT"]
