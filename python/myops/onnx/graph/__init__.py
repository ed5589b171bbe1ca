"""Functions that all ONNX tools need: files, lists of nodes, values, types."""
