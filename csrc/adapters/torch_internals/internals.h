// What a call past torch's dispatcher asks of it, where torch's own headers answer.
//
// They change with each version of torch, so this is a Python module of its own, built for the one
// version that is installed, and named after it (see python/myops/_torch/torch_internals.py). Calls are faster
// with it and compute the same without.
#pragma once

#include <Python.h>

#include "../numpy/dlpack.h"

namespace myops {

struct TorchInternals {
  // Whether somebody wants to see the calls that torch makes.
  bool (*watched)();
  // Where a plain tensor's numbers lie; false for any other object. `differentiable`: a tensor that
  // asks for its gradient is not plain. `written`: it will be written to.
  bool (*read)(PyObject* object, bool differentiable, bool written, dlpack::Tensor* seen);
  // Lets autograd know that a tensor that was read is written to; false where it does not count.
  bool (*count_write)(PyObject* tensor);
  // A Python tensor that shares the one behind a handle.
  PyObject* (*wrap)(void* handle);
};

// The number counts up with every change above, and in dlpack::Tensor: modules that were built
// before are not used.
inline constexpr const char* kTorchInternals = "myops.torch_internals.1";

}  // namespace myops
