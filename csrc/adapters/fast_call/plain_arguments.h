// Reads the arguments of a call from Python: plain tensors on the CPU, numbers and lists. For
// anything else NotPlain is thrown, and the dispatcher makes the call.
#pragma once

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

// Reads the address, dtype, shape and strides of a tensor.
struct TensorReader {
  const TorchInternals* internals;  // null: the members below are used
  const DLPackExchangeAPI* exchange;
  py::object tensor, parameter;  // the types that count as plain
  py::object is_neg, is_conj;    // methods of the type
  py::object requires_grad;      // the getter of a property of it
  py::object uint8, int8;        // dtypes

  // `differentiable`: a tensor that asks for its gradient is not plain.
  Tensor read(PyObject* object, bool differentiable, bool written = false) const;

 private:
  DLTensor read_through_dlpack(PyObject* object, bool differentiable) const;
};

// The inputs of a call, from a tuple in the order of the description. Owns the lists of numbers.
struct PlainInputs {
  Tensors tensors;
  std::vector<py::object> kept;  // of a list of tensors, which another thread may change
  std::vector<std::vector<double>> reals;
  std::vector<std::vector<int64_t>> integers;

  PlainInputs(const Op& op, const TensorReader& reader, PyObject* given, bool differentiable);
};

// From a dict.
Attributes plain_attributes(const Op& op, PyObject* given);

}  // namespace myops::fast_call
