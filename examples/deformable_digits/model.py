"""One small network, three times: with deformable layers, with plain ones, and plain but wider.

    picture [N, 1, 28, 28]
      -> 3x3, stride 2                    14x14, always a plain convolution
      -> 3x3, deformable or plain         14x14
      -> 3x3, stride 2, deformable or plain  7x7
      -> mean over all pixels -> linear   10 scores

Each convolution is followed by batch normalisation and ReLU. A deformable layer computes, from the
same input and with a convolution of its own, where to sample (an offset for each of its 9 taps) and
how much each sample counts (a mask). That convolution starts at zero: training starts at the
regular grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import myops.nn

WEIGHTS = Path(__file__).with_name("digits.npz")


@dataclass(frozen=True)
class Design:
    """What is different between the networks.

    Args:
        deformable: Whether the second and the third layer are.
        channels: After the first, second and third layer.
    """

    deformable: bool
    channels: tuple[int, int, int]


# The offset convolutions have weights too. So "plain, wider" has more weights than "deformable":
# what the deformable layers gain is not gained by more weights.
DESIGNS = {
    "plain": Design(False, (16, 24, 32)),
    "plain, wider": Design(False, (22, 33, 46)),
    "deformable": Design(True, (16, 24, 32)),
}


class Network(nn.Module):
    """Tells handwritten digits apart.

    Example:
        >>> Network(DESIGNS["deformable"])(torch.rand(5, 1, 28, 28)).shape
        torch.Size([5, 10])
    """

    def __init__(self, design: Design) -> None:
        super().__init__()
        first, second, third = design.channels
        layer = myops.nn.ModulatedDeformConv2dPack if design.deformable else nn.Conv2d
        self.conv1 = nn.Conv2d(1, first, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(first)
        self.conv2 = layer(first, second, 3, stride=1, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(second)
        self.conv3 = layer(second, third, 3, stride=2, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(third)
        self.scores = nn.Linear(third, 10)

    def forward(self, pictures: Tensor) -> Tensor:
        """Scores of the ten digits, Tensor[N, 10], of pictures Tensor[N, 1, 28, 28]."""
        features = torch.relu(self.norm1(self.conv1(pictures)))
        features = torch.relu(self.norm2(self.conv2(features)))
        features = torch.relu(self.norm3(self.conv3(features)))
        return self.scores(features.mean((2, 3)))

    def weight_count(self) -> int:
        """How many numbers are trained."""
        return sum(parameter.numel() for parameter in self.parameters())


@torch.no_grad()
def predict(network: Network, pictures: Tensor) -> Tensor:
    """Scores in eval mode, Tensor[N, 10], 256 pictures at a time; the mode is left as it was."""
    training = network.training
    network.eval()
    scores = torch.cat([network(batch) for batch in pictures.split(256)])
    network.train(training)
    return scores


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """The share of pictures, 0 to 1, whose highest score Tensor[N, 10] is that of its label."""
    return (scores.argmax(1) == labels).double().mean().item()


def save(networks: Mapping[str, Network], path: Path) -> None:
    """Writes all networks into one plain .npz, an array a tensor: "network/layer.weight"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        f"{name}/{key}": value.numpy()
        for name, network in networks.items()
        for key, value in network.state_dict().items()
    }
    np.savez(path, **arrays)


def load(path: Path = WEIGHTS) -> dict[str, Network]:
    """The networks of `DESIGNS` with the weights of `path`, ready for use (eval mode)."""
    networks = {name: Network(design).eval() for name, design in DESIGNS.items()}
    with np.load(path, allow_pickle=False) as arrays:
        for name, network in networks.items():
            network.load_state_dict(
                {key: torch.from_numpy(arrays[f"{name}/{key}"]) for key in network.state_dict()}
            )
    return networks
