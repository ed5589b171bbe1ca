// Between Python objects and the core's types.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "myops/op.h"

namespace myops::numpy {

namespace py = pybind11;

py::dtype to_numpy(DType dtype);
DType from_name(const Op& op, const Input& input, const std::string& name);

// A view of an array; the array must outlive it.
Tensor view(const Op& op, const Input& input, const py::array& array);

// Values for the declared attributes; those not in `given` keep their defaults.
Attributes attributes_from(const Op& op, const py::dict& given);

// The whole description as plain dicts, lists, numbers and strings.
py::dict describe(const Op& op);

}  // namespace myops::numpy
