"""many_ops: 200 ops, each defined when the package is imported."""

import myops

library = myops.op_library("many_ops")
ops = {
    name: library.define(name, shape=lambda inputs, attributes: [inputs[0].shape])
    for name in library.ops
}
