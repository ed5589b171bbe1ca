// Calls from Python on torch's tensors that go past torch's dispatcher.
//
// For plain tensors on the CPU, where nobody differentiates, traces, transforms, profiles or
// watches, the dispatcher and its Python binding only cost: several times what a small op takes.
// Such a call reads the tensors through DLPack's C interface and runs the kernel on torch's
// threads. Whatever is not plain is left to the dispatcher, refusals of dtypes and devices
// included, so that there is one behaviour.
#pragma once

#include "convert.h"

namespace myops::numpy {

// A function f(inputs, attributes, out): a tuple in the description's order, a dict, a tensor or
// None. It returns the result, or NotImplemented: the dispatcher must do it. None in its place
// where torch has no such interface.
//
// `parts`: what it needs of torch, by name (see python/myops/_torch/direct_call.py).
py::object direct(const Op& op, const py::dict& parts);

}  // namespace myops::numpy
