"""Looking at a graph and changing it; the functions stand in `myops.onnx`.

    summary    what a model holds
    extraction a part of a model as a model of its own
    outputs    values inside a model as further outputs
    editing    names, attributes, op types, dimensions
    upgrading  standard nodes become ours
    slimming   onnxslim, with proof that the numbers stay
    viewer     Netron with the documentation of our ops

Everything passes through custom nodes, model-local functions and the bodies of If, Loop and Scan:
what a body reads from outside is an input of its node.
"""
