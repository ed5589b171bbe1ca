"""Two ONNX files beside each other; no PyTorch.

scopes       what the values of a graph compute, as numbers that two files share
matching     which node and value of one file belongs to which of another
diffing      `diff`: the differences; tensors: those of constants; difference is its result
comparing    `compare_files`: both run on the same inputs
backends     what runs them
tracing      all values of a run, those in bodies of If, Loop and Scan included
rows         the values side by side
search       where a difference arises, and where it begins to matter
result       what comes out; terminal shows it
"""
