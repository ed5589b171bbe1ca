// Conversions between Python objects and the core's types.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "myops/op.h"

namespace myops::numpy {

namespace py = pybind11;

py::dtype to_numpy(DType dtype);
DType from_name(const Op& op, const Input& input, const std::string& name);

// The strings of a call. In NumPy they are Python objects, in a kernel std::string.
class Strings {
 public:
  // The strings of a contiguous array of str objects.
  Tensor read(const Op& op, const Input& input, const py::array& array, Budget& budget);
  // Empty strings, which write() makes the elements of an array of objects.
  void* make(const Op& op, size_t output, const py::array& array);
  void write(const Op& op) const;  // needs the GIL

 private:
  struct Result {
    const std::string* name;
    py::array array;
    std::vector<std::string> strings;
  };
  std::deque<std::vector<std::string>> read_;
  std::deque<Result> made_;
};

// A view of an array; the array must outlive it, and so must the strings.
Tensor view(const Op& op, const Input& input, const py::array& array, Strings& strings,
            Budget& budget);

// The value of one attribute; throws pybind11::cast_error for a value of another type.
AttributeValue from_python(AttributeType type, const py::handle& value);
py::object to_python(const AttributeValue& value);

// Values for the declared attributes; those not in `given` have their defaults.
Attributes attributes_from(const Op& op, const py::dict& given);

// The attributes as the kernel gets them, by name.
py::dict to_python(const Attributes& attributes);

// A shape as lengths, names, None, and (name, bound or None) for a length that the kernel decides.
using PyDecided = std::tuple<std::string, std::optional<int64_t>>;
using PyDims = std::vector<std::variant<std::monostate, int64_t, std::string, PyDecided>>;
Dims to_dims(const PyDims& lengths);
py::object to_python(const std::optional<Dims>& dims);

}  // namespace myops::numpy
