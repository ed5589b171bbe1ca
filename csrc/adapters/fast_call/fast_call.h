// Calls from Python on PyTorch tensors that do not go through PyTorch's dispatcher.
//
// For plain tensors on the CPU, while nothing differentiates, traces, transforms, profiles or
// otherwise observes the call, the dispatcher and its Python binding have no effect but take
// several times as long as a small op. Such a call reads the tensors through DLPack's C interface
// and runs the kernel on PyTorch's threads. Everything else is left to the dispatcher, also the
// refusals of dtypes and devices, so that there is one behaviour.
#pragma once

#include "../numpy/convert.h"

namespace myops::fast_call {

namespace py = pybind11;

// A function f(inputs, attributes, out): a tuple in the order of the description, a dict, a tensor
// or None. It returns the result, or NotImplemented where the dispatcher must make the call. None
// instead of a function where this PyTorch lacks the interface.
//
// `parts`: what it uses of PyTorch, by name, as the caller of Op.direct in python/myops/ gathers
// it.
py::object make_fast_call(const Op& op, const py::dict& parts);

// Lets a function of make_fast_call() make calls whose first input asks for its gradient, too: see
// recorded_call.h. `gradient`: that of the gradient's op; `python`: the same computation through
// Python, f(grad, shape of the input, the other inputs, attributes). Does nothing where the module
// built for this torch is missing.
void use_gradient(const py::object& call, const py::object& gradient, const py::object& python);

}  // namespace myops::fast_call
