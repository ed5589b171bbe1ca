// The questions of a fast call, answered through torch's C++ headers instead of Python functions.
//
// These headers change with each release of torch, so this is a Python module of its own, built for
// the release that is installed and named after it (module_name() in Python). Calls are faster with
// it and compute the same without.
#pragma once

#include <Python.h>

#include "../../torch/owned_memory.h"
#include "../dlpack.h"
#include "myops/tensor.h"

namespace myops {

// A call whose gradients may be asked for, by any thread and any number of times. Bit i of a mask
// is input i of the call.
struct RecordedCall {
  void* call;
  size_t inputs;     // their number, also of those that were left out
  uint64_t tensors;  // the inputs that are tensors
  uint64_t saved;    // those of them that the gradients depend on
  int summed;        // the input whose gradient is the sum of `grad` for each channel, or -1
  // Makes the gradients of the inputs in the mask `needed`: `made[i]` is a new tensor's handle, or
  // stays null for an input without a gradient. False where only Python can make them. `tensors`:
  // `grad`, then the saved inputs in their order, as read() has described them. Called without
  // the GIL.
  bool (*gradients)(void* call, const DLTensor* tensors, uint64_t needed, void** made);
  // The same in Python, for tuples of the saved inputs and of a bool for each input: a tuple; null
  // and a Python error if it fails. Called with the GIL.
  PyObject* (*in_python)(void* call, PyObject* grad, PyObject* saved, PyObject* needed);
  void (*forget)(void* call);
};

// Calls with more inputs are not recorded.
inline constexpr size_t kMostRecordedInputs = 64;

struct TorchInternals {
  // Whether a mode, transformation, tracer, autocast or profiler observes calls.
  bool (*observed)();
  // Describes a plain tensor on the CPU or a CUDA device; false for any other object.
  // `differentiable`: a tensor that requires grad is not plain. `written`: it will be written to.
  bool (*read)(PyObject* object, bool differentiable, bool written, DLTensor* described);
  // Increments the version of a tensor that read() has described; false where it has none.
  bool (*count_write)(PyObject* tensor);
  // A Python tensor that shares the one behind a handle.
  PyObject* (*wrap)(void* handle);
  // Torch's own tensor behind a Python object that read() has described.
  const void* (*tensor_of)(PyObject* object);
  // Whether a tensor that read() would describe asks for its gradient.
  bool (*requires_grad)(PyObject* object);
  // Tells autograd that a new tensor is what `call` has made of its inputs, a tuple. Takes `call`
  // over; false and a Python error if it fails.
  bool (*record)(PyObject* inputs, void* result, const RecordedCall& call);
  // A new tensor without elements set, its handle and the address of its elements; null if torch
  // cannot allocate it. (The stable ABI takes the way through the dispatcher.)
  void* (*new_tensor)(DType dtype, const Shape& shape, const Shape& strides, void** data);
  OwnedMemory owned_memory;
};

// The number counts up with every change of the struct or of what a function accepts, so that a
// module built before is not used.
inline constexpr const char* kTorchInternals = "myops.torch_internals.7";

}  // namespace myops
