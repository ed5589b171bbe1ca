// The description of an op as Python objects: of an op in C++, for Python to read, and of a
// prototype, which Python describes.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>

#include "myops/op.h"

namespace myops::numpy {

namespace py = pybind11;

// "int", "floats", ...
const char* type_name(AttributeType type);

// The whole description as plain dicts, lists, numbers and strings.
py::dict describe(const Op& op);

// An op from such a description, without a kernel: the prototype of one, whose shape rule is
// rule(shapes, dtypes, values, attributes) -> shapes.
Op prototype(const py::dict& description, py::function rule);

// The Python function that a prototype's kernel calls on this thread, while this object lives.
class PrototypeBody {
 public:
  explicit PrototypeBody(std::function<void(const KernelContext&)> body);
  ~PrototypeBody();
  PrototypeBody(const PrototypeBody&) = delete;
  PrototypeBody& operator=(const PrototypeBody&) = delete;
  static void run(const KernelContext& context);

 private:
  const std::function<void(const KernelContext&)> body_;
  const PrototypeBody* const outer_;  // of a call inside which this one is made
};

}  // namespace myops::numpy
