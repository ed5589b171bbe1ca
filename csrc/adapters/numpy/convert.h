// Conversions between Python objects and the core's types.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "myops/op.h"

namespace myops::numpy {

namespace py = pybind11;

py::dtype to_numpy(DType dtype);
DType from_name(const Op& op, const Input& input, const std::string& name);

// A view of an array; the array must outlive it.
Tensor view(const Op& op, const Input& input, const py::array& array);

// Values for the declared attributes; those not in `given` have their defaults.
Attributes attributes_from(const Op& op, const py::dict& given);

// Each attribute as the kernel gets it, by name.
py::dict to_python(const Attributes& attributes);

// The whole description as plain dicts, lists, numbers and strings.
py::dict describe(const Op& op);

// An op from such a description, without a kernel: the prototype of one, whose shape rule is
// rule(shapes, dtypes, values, attributes) -> shapes.
Op prototype(const py::dict& description, py::function rule);

// What the kernel of a prototype runs: a call on this thread, while this object lives.
class PrototypeBody {
 public:
  explicit PrototypeBody(std::function<void()> body);
  ~PrototypeBody();
  PrototypeBody(const PrototypeBody&) = delete;
  PrototypeBody& operator=(const PrototypeBody&) = delete;
  static void run();

 private:
  const std::function<void()> body_;
  const PrototypeBody* const outer_;  // of a call inside which this one is made
};

// A shape as lengths, names and None.
using PyDims = std::vector<std::variant<std::monostate, int64_t, std::string>>;
Dims to_dims(const PyDims& lengths);
py::object to_python(const std::optional<Dims>& dims);

}  // namespace myops::numpy
