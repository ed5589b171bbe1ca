"""What all ONNX tools ask of a model: files, node lists, values, types."""
