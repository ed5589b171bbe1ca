// Arguments of a call from Python that are exactly what they look like: plain tensors on the CPU,
// numbers, lists. Anything else is NotPlain, and the dispatcher's business.
#pragma once

#include "../torch_internals/internals.h"
#include "convert.h"
#include "dlpack.h"

namespace myops::numpy {

struct NotPlain {};  // thrown

inline void expect(bool plain) {
  if (!plain) throw NotPlain();
}

// Owns what a function of Python returned; its exception becomes one of C++.
inline py::object take(PyObject* result) {
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

inline bool holds(PyObject* result) {
  const py::object held = take(result);
  if (held.ptr() == Py_False || held.ptr() == Py_None) return false;
  const int truth = PyObject_IsTrue(held.ptr());
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

int64_t integer(PyObject* object);

// How to read a tensor.
struct TensorReader {
  const TorchInternals* internals;  // null: by what is below
  const dlpack::ExchangeApi* exchange;
  py::object tensor, parameter;      // the types that count as plain
  py::object is_neg, requires_grad;  // of the type: a method, and the getter of a property

  // `differentiable`: a tensor that asks for its gradient is not plain.
  Tensor read(PyObject* object, bool differentiable, bool written = false) const;

 private:
  dlpack::Tensor ask(PyObject* object, bool differentiable) const;
};

// The inputs of a call, from a tuple in the description's order; lists of numbers live here.
struct PlainInputs {
  Tensors tensors;
  std::vector<std::vector<double>> reals;
  std::vector<std::vector<int64_t>> integers;

  PlainInputs(const Op& op, const TensorReader& reader, PyObject* given, bool differentiable);
};

// From a dict.
Attributes plain_attributes(const Op& op, PyObject* given);

}  // namespace myops::numpy
