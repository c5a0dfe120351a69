"""RevResNet-18 for small images: streams of half the stem's channels, couplings of one branch."""

import torch
from torch import nn
from torch.nn import functional as F

from .layers import ImageNetwork
from .reversible import Body, Swap, Transition


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2)


class Branch(nn.Module):
    """Two 3x3 convolutions, each with batch norm and ReLU."""

    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            convolution(channels, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(),
            convolution(channels, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x):
        return self.body(x)


class Down(Transition):
    """The down-sampling block of RevResNet: the main branch with stride 2, the other stream through a 1x1 convolution."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.norm1 = convolution(inputs, outputs, 3, 2), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.conv3, self.norm3 = convolution(inputs, outputs, 1, 2), nn.BatchNorm2d(outputs)

    def forward(self, x1, x2):
        inner = self.norm1(self.conv1(x1))
        y1 = self.norm3(self.conv3(x2)) + F.relu(self.norm2(self.conv2(F.relu(inner))))
        return y1, inner


class Head(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.linear = nn.Linear(width, classes)

    def forward(self, x1, x2):
        return self.linear(torch.cat([x1, x2], 1).mean((2, 3)))


class RevResNet18(ImageNetwork):
    side = 32

    def __init__(self, width=64, classes=10):
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 2 * width, 3), nn.BatchNorm2d(2 * width), nn.ReLU())
        blocks = []
        for stage in range(4):
            channels = width << stage
            blocks += [Swap(Branch(channels)) if stage == 0 else Down(channels // 2, channels), Swap(Branch(channels))]
        self.body = Body(blocks)
        self.head = Head(16 * width, classes)

    def streams(self, images):
        return self.stem(images).chunk(2, 1)

    def optimizer(self):
        return torch.optim.SGD(self.parameters(), 1e-3, 0.9, weight_decay=5e-4, nesterov=True, fused=True)
