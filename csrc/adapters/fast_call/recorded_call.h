// Calls whose inputs require gradients, for ops whose gradients are computed by an op of ours too.
// The inputs of that op are the gradient of the result and inputs of the call, with the same
// attributes, and perhaps a list of the gradients that are needed. Autograd gets a node that calls
// its kernel without Python. Second derivatives, and backward passes that something observes, are
// left to Python.
#pragma once

#include "binding.h"

namespace myops::fast_call {

// What use_gradient() needs to know of `gradient`, an op that computes the gradients of `op`; none
// where its description is not that of one. `summed`: the input of `op` whose gradient is the sum
// of `grad` for each channel, or "".
std::optional<Gradient> gradient_of(const Op& op, const Binding& gradient,
                                    const std::string& summed);

// Whether a call, made in grad mode, is one of these.
bool is_recorded(const Binding& binding, PyObject* input_tuple);

// What the node saves of a call, except for its tensors.
RecordedCall record_call(const Binding& binding, PyObject* input_tuple, PyObject* attribute_dict,
                         PlainInputs inputs, const Attributes& attributes);

}  // namespace myops::fast_call
