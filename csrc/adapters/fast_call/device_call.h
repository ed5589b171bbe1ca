// Fast calls whose tensors are on a CUDA device. The torch library makes them, with torch's stream
// and memory, so that a call from the dispatcher and a fast call use the same loaded kernels.
#pragma once

#include "binding.h"

namespace myops::fast_call {

// Runs the op and puts its results into `made`. `out`: the caller's tensor for the result, or null;
// `out_object`: the same as a Python object. Throws NotPlain where the dispatcher must make the
// call.
void call_on_cuda(const Binding& binding, const PlainInputs& inputs, const Attributes& attributes,
                  const Tensor* out, PyObject* out_object, NewTensors& made);

// The same without `out`, and without the GIL. False where the op refuses the call.
bool gradients_on_cuda(const Binding& binding, int32_t device, const Tensors& inputs,
                       const Attributes& attributes, NewTensors& made);

}  // namespace myops::fast_call
