"""`myops.onnx.export`: both exporters, what they decide about lengths, and the file."""
