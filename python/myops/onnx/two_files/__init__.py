"""Compares two ONNX files, without PyTorch.

numbered_graph  gives equal numbers to values of both files that compute the same
matching        pairs the nodes and values of both files
diffing         `diff`: lists the differences; tensors: those of constants; difference: its result
comparing       `compare_files`: runs both on the same inputs
inputs_of_both  whether both have the same inputs
backends        the runtimes
tracing         records all values of a run, including those in bodies of If, Loop and Scan
rows            pairs the values of two runs
search          finds where a difference arises, and where it changes the outputs
result          the report; terminal shows it
"""
