// Reads the arguments of a call from Python: plain tensors on the CPU or a CUDA device, numbers and
// lists. For anything else NotPlain is thrown, and the dispatcher makes the call.
#pragma once

#include <optional>

#include "../../core/checks.h"
#include "../numpy/convert.h"
#include "torch_internals/internals.h"

namespace myops::fast_call {

namespace py = pybind11;

// No std::exception: nothing failed, and a report of the call has no error.
struct NotPlain : NotAFailure {};

inline void require_plain(bool plain) {
  if (!plain) throw NotPlain();
}

// Owns the new reference that a Python function returned; a Python exception becomes a C++ one.
inline py::object take(PyObject* result) {
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

// Whether a Python function's result is true; takes its reference over.
inline bool is_true(PyObject* result) {
  const py::object owned = take(result);
  if (owned.ptr() == Py_False || owned.ptr() == Py_None) return false;
  const int truth = PyObject_IsTrue(owned.ptr());
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

// Throws NotPlain for anything but an int within int64_t.
int64_t integer(PyObject* object);

// Throws NotPlain for a dtype that no kernel has.
Tensor tensor_of(const DLTensor& described);

// Where a call runs: on the device of its tensors. Those that are read early are on the CPU.
class CallDevice {
 public:
  static constexpr int32_t kCpu = -1;

  static int32_t index_of(const DLDevice& device) {
    return device.device_type == kDLCPU ? kCpu : device.device_id;
  }

  // Throws NotPlain if the tensor at `input` of the call may not be on this device.
  void add(const Op& op, size_t input, const DLDevice& device) {
    const int32_t index = index_of(device);
    if (index == kCpu && is_read_early(op, input)) return;
    require_plain(!is_read_early(op, input) && index == index_.value_or(index));
    index_ = index;
  }
  // The number of the CUDA device, or kCpu.
  int32_t index() const { return index_.value_or(kCpu); }
  bool is(const DLDevice& device) const { return index() == index_of(device); }

 private:
  std::optional<int32_t> index_;
};

// Reads the address, dtype, shape and strides of a tensor.
struct TensorReader {
  const TorchInternals* internals;  // null: the members below are used
  const DLPackExchangeAPI* exchange;
  py::object tensor, parameter;  // the types that count as plain
  py::object is_neg, is_conj;    // methods of the type
  py::object requires_grad;      // the getter of a property of it
  py::object uint8, int8;        // dtypes

  // `differentiable`: a tensor that asks for its gradient is not plain. `device`: set to that of
  // the tensor, the CPU or a CUDA device.
  Tensor read(PyObject* object, bool differentiable, DLDevice& device, bool written = false) const;

 private:
  DLTensor read_through_dlpack(PyObject* object, bool differentiable) const;
};

// The inputs of a call, from a tuple in the order of the description. Owns the lists of numbers.
struct PlainInputs {
  Tensors tensors;
  CallDevice device;
  std::vector<py::object> kept;  // of a list of tensors, which another thread may change
  std::vector<std::vector<double>> reals;
  std::vector<std::vector<int64_t>> integers;

  PlainInputs(const Op& op, const TensorReader& reader, PyObject* given, bool differentiable);

 private:
  void add(const Op& op, const TensorReader& reader, PyObject* tensor, bool differentiable);
};

// From a dict.
Attributes plain_attributes(const Op& op, PyObject* given);

}  // namespace myops::fast_call
