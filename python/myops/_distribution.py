"""Which of two distributions this is: myops, or the part of it that is myops-runtime."""

from __future__ import annotations

import importlib.util

# The sources are the same; myops-runtime lacks what needs PyTorch or onnx.
RUNTIME_ONLY = importlib.util.find_spec("myops.ops") is None
