// Calls whose first input requires a gradient, for ops whose gradient is an op of ours too. The
// inputs of that op are the gradient of the result and the inputs of the call (of the first, only
// the shape is read), with the same attributes. Autograd gets a node that calls its kernel without
// Python. Second derivatives, and backward passes that something observes, are left to Python.
#pragma once

#include "binding.h"

namespace myops::fast_call {

// Whether a call, made in grad mode, is one of these: its first input requires a gradient, and the
// others are lists of numbers or left out.
bool is_recorded(const Binding& binding, PyObject* input_tuple);

// What the node saves of a call: everything but its first input.
RecordedCall record_call(const Binding& binding, PyObject* input_tuple, PyObject* attribute_dict,
                         PlainInputs inputs, const Attributes& attributes);

}  // namespace myops::fast_call
