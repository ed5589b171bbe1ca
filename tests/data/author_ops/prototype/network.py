"""A network around nms, which comes from the module that the first argument names; its file, and
what ONNX Runtime makes of the second file."""

import importlib
import sys
from pathlib import Path

import numpy as np
import torch

import myops.onnx
import myops.ort

sys.path.insert(0, str(Path(__file__).parent))
nms = importlib.import_module(sys.argv[1]).nms


class Network(torch.nn.Module):
    def forward(self, boxes, scores):
        kept, indices = nms(boxes * 2, scores, threshold=0.25)
        return kept * 3, scores[indices]


torch.manual_seed(0)
corners = torch.rand(12, 2) * 5
boxes, scores = torch.cat([corners, corners + 1 + torch.rand(12, 2)], 1), torch.rand(12)
leaf = boxes.clone().requires_grad_()
Network()(leaf, scores)[0].sum().backward()
size = {"boxes": {0: "count"}, "scores": {0: "count"}}
myops.onnx.export(
    Network(), (boxes, scores), sys.argv[2], input_names=["boxes", "scores"], dynamic_axes=size
)
session = (myops.ort.session if sys.argv[1] == "author_ops" else myops.ort.pyop_session)(
    sys.argv[3]
)
results = session.run(None, {"boxes": boxes.numpy()[:7], "scores": scores.numpy()[:7]})
for result, expected in zip(results, Network()(boxes[:7], scores[:7]), strict=True):
    np.testing.assert_array_equal(result, expected.numpy())
print(leaf.grad.sum().item(), *(result.tolist() for result in results))
