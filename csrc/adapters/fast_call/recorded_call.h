// Calls whose first input asks for its gradient, where that gradient is an op of ours too: it takes
// the gradient of the result and the inputs of the call, whose first it asks for its shape only,
// and the same attributes. Autograd gets a node that calls its kernel without Python. What such a
// gradient cannot do is left to Python: a second derivative, or a backward pass that somebody
// observes.
#pragma once

#include "binding.h"

namespace myops::fast_call {

// Whether a call, made in grad mode, is one of these: its first input asks for its gradient, and
// the others are lists of numbers or left out.
bool is_recorded(const Binding& binding, PyObject* input_tuple);

// What the node keeps of a call: not its first input.
RecordedCall record_call(const Binding& binding, PyObject* input_tuple, PyObject* attribute_dict,
                         PlainInputs inputs, const Attributes& attributes);

}  // namespace myops::fast_call
