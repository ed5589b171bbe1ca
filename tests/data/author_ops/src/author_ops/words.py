"""label_words: strings, which NumPy and ONNX Runtime have and PyTorch has not."""

from __future__ import annotations

import myops

library = myops.op_library("author_ops")
label_words = library.define("label_words")
