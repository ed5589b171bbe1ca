"""`myops.onnx.export`: calls both exporters, records their decisions about lengths, writes the
file."""
