"""Two ONNX files beside each other; no PyTorch.

scopes       what the values of a graph compute, as numbers that two files share
matching     which node and value of one file belongs to which of another
diffing      `diff`: what stands otherwise; `difference` is its result
"""
