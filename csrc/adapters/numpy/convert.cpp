#include "convert.h"

namespace myops::numpy {
namespace {

constexpr const char* kTypeNames[] = {"bool", "int", "float", "string", "ints", "floats"};
constexpr const char* kAccessNames[] = {"contiguous", "channels_last", "strided", "shape_only"};

AttributeValue convert(AttributeType type, const py::handle& value) {
  switch (type) {
    case AttributeType::Bool:
      return value.cast<int64_t>() != 0;
    case AttributeType::Int:
      return value.cast<int64_t>();
    case AttributeType::Float:
      return value.cast<double>();
    case AttributeType::String:
      return value.cast<std::string>();
    case AttributeType::Ints:
      return value.cast<std::vector<int64_t>>();
    case AttributeType::Floats:
      return value.cast<std::vector<double>>();
  }
  throw std::bad_variant_access();
}

}  // namespace

py::dtype to_numpy(DType dtype) {
  if (dtype == DType::BFloat16) {  // NumPy has none; ml_dtypes (which onnx uses) brings it
    return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16"));
  }
  return py::dtype(dtype_name(dtype));
}

DType from_name(const Op& op, const Input& input, const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (name == dtype_name(static_cast<DType>(i))) return static_cast<DType>(i);
  }
  refuse_dtype(op, input, name);
}

Tensor view(const Op& op, const Input& input, const py::array& array) {
  const DType dtype = from_name(op, input, py::str(array.dtype().attr("name")));
  const auto size = static_cast<py::ssize_t>(dtype_size(dtype));
  Shape shape(array.shape(), array.shape() + array.ndim());
  Shape strides;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    strides.push_back(array.strides(axis) / size);
  }
  return Tensor(const_cast<void*>(array.data()), dtype, std::move(shape), std::move(strides));
}

Attributes attributes_from(const Op& op, const py::dict& given) {
  Attributes values(op.attributes);
  for (const auto& item : given) {
    const auto name = item.first.cast<std::string>();
    size_t index = 0;
    while (index < op.attributes.size() && op.attributes[index].name != name) ++index;
    if (index == op.attributes.size()) {
      std::vector<std::string> legal;
      for (const Attribute& attribute : op.attributes) legal.push_back(attribute.name);
      fail(op.name, name, "an attribute of this name", str("one of ", legal));
    }
    const AttributeType type = op.attributes[index].type();
    try {
      values.set(index, convert(type, item.second));
    } catch (const py::cast_error&) {
      fail(op.name, name, py::repr(item.second), kTypeNames[static_cast<int>(type)]);
    }
  }
  return values;
}

py::dict describe(const Op& op) {
  using namespace pybind11::literals;
  py::dict types;
  for (const TypeParameter& parameter : op.types) {
    py::list names;
    for (DType dtype : parameter.dtypes) names.append(dtype_name(dtype));
    types[parameter.name.c_str()] = py::tuple(names);
  }
  py::list inputs, outputs, attributes;
  for (const Input& input : op.inputs) {
    inputs.append(py::dict("name"_a = input.name, "type"_a = input.type, "doc"_a = input.doc,
                           "optional"_a = input.is_optional, "values"_a = input.has_values,
                           "access"_a = kAccessNames[static_cast<int>(input.access_mode)]));
  }
  for (const Output& output : op.outputs) {
    outputs.append(py::dict("name"_a = output.name, "type"_a = output.type, "doc"_a = output.doc));
  }
  for (const Attribute& attribute : op.attributes) {
    const py::object value =
        std::visit([](const auto& held) { return py::cast(held); }, attribute.default_value);
    attributes.append(py::dict("name"_a = attribute.name,
                               "type"_a = kTypeNames[static_cast<int>(attribute.type())],
                               "default"_a = value, "doc"_a = attribute.doc,
                               "choices"_a = py::tuple(py::cast(attribute.choices))));
  }
  return py::dict("name"_a = op.name, "onnx_type"_a = op.onnx_type,
                  "since_version"_a = op.since_version, "doc"_a = op.summary, "types"_a = types,
                  "inputs"_a = inputs, "outputs"_a = outputs, "attributes"_a = attributes);
}

}  // namespace myops::numpy
