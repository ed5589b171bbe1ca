"""my_package: operators that run in PyTorch, in ONNX files and in ONNX Runtime.

Each op has a file here and one in csrc/ of the same name.
"""

from my_package.soft_clip import soft_clip

__all__ = ["soft_clip"]
