"""Functions to inspect and change a graph; they are public in `myops.onnx`.

    summary    lists the contents of a model
    extraction makes a part of a model a separate model
    outputs    makes inner values outputs
    editing    names, attributes, op types, dimensions
    upgrading  replaces standard nodes by ours
    slimming   onnxslim, with a test that the results are the same
    viewer     Netron with the documentation of our ops

All of them support custom nodes, model-local functions and the bodies of If, Loop and Scan: outer
values that a body reads count as inputs of its node.
"""
