// Calls from Python on PyTorch tensors that do not go through PyTorch's dispatcher.
//
// For plain tensors on the CPU or on one CUDA device, while nothing differentiates, traces,
// transforms, profiles or otherwise observes the call, the dispatcher and its Python binding have
// no effect but take several times as long as a small op. Such a call reads the tensors through
// DLPack's C interface and runs the kernel on PyTorch's threads, or queues it on PyTorch's current
// stream (device_call.h). Everything else is left to the dispatcher, also the refusals of dtypes
// and devices, so that there is one behaviour.
#pragma once

#include "../numpy/convert.h"

namespace myops::fast_call {

namespace py = pybind11;

// Makes a Python function f(inputs, attributes, out) for the op. `inputs`: a tuple in the order of
// the description; `attributes`: a dict, or parts["constant"], which is read once; `out`: a tensor
// or None. It returns the result, or NotImplemented where the dispatcher must make the call.
// Returns None instead of a function where this PyTorch lacks the interface.
//
// `parts`: what it uses of PyTorch, by name; see caller() in python/myops/_torch/fast_call.py.
py::object make_fast_call(const Op& op, const py::dict& parts);

// Lets `call`, a function of make_fast_call(), also make calls whose inputs require gradients: see
// recorded_call.h. `gradient`: the same kind of function for the op that computes the gradients;
// `python`: the same computation in Python, f(grad, inputs, needed, attributes); `summed`: the
// input whose gradient is the sum of `grad` over all axes but the second, or "". Does nothing where
// the module built for this torch is missing, or where `gradient` is not described as a gradient of
// the op with one result.
void use_gradient(const py::object& call, const py::object& gradient, const py::object& python,
                  const std::string& summed);

}  // namespace myops::fast_call
