#include "convert.h"

#include <algorithm>

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

namespace {

// Avoids the dtype's name if possible: a Python function computes it, and a daemon thread that
// executes Python code may be ended with the interpreter, which unwinds its C++ stack.
DType dtype_of(const Op& op, const Input& input, const py::array& array) {
  const py::dtype type = array.dtype();
  const char kind = type.kind();
  const py::ssize_t size = type.itemsize();
  if (kind == 'f' && size == 4) return DType::Float32;
  if (kind == 'f' && size == 8) return DType::Float64;
  if (kind == 'f' && size == 2) return DType::Float16;
  if (kind == 'u' && size == 1) return DType::UInt8;
  if (kind == 'i' && size == 4) return DType::Int32;
  if (kind == 'i' && size == 8) return DType::Int64;
  return from_name(op, input, py::str(type.attr("name")));
}

}  // namespace

Tensor view(const Op& op, const Input& input, const py::array& array) {
  const DType dtype = dtype_of(op, input, array);
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
    if (!py::isinstance<py::str>(item.first)) {
      throw py::type_error(str(op.name, ": attributes: got the name ",
                               std::string(py::repr(item.first)), ", expected a string"));
    }
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

py::dict to_python(const Attributes& attributes) {
  py::dict values;
  for (size_t i = 0; i < attributes.declared().size(); ++i) {
    values[attributes.declared()[i].name.c_str()] = std::visit(
        [](const auto& held) -> py::object { return py::cast(held); }, attributes.value(i));
  }
  return values;
}

Dims to_dims(const PyDims& lengths) {
  Dims dims;
  for (const auto& length : lengths) {
    if (const auto* number = std::get_if<int64_t>(&length)) {
      dims.push_back(Dim(*number));
    } else if (const auto* symbol = std::get_if<std::string>(&length)) {
      dims.push_back(Dim(*symbol));
    } else {
      dims.push_back(Dim());
    }
  }
  return dims;
}

py::object to_python(const std::optional<Dims>& dims) {
  if (!dims) return py::none();
  py::list lengths;
  for (const Dim& dim : *dims) {
    if (dim.known()) {
      lengths.append(dim.value);
    } else if (!dim.symbol.empty()) {
      lengths.append(dim.symbol);
    } else {
      lengths.append(py::none());
    }
  }
  return lengths;
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
    outputs.append(py::dict("name"_a = output.name, "type"_a = output.type, "doc"_a = output.doc,
                            "may_overwrite"_a = py::tuple(py::cast(output.overwritten))));
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

namespace {

template <class T>
T get(const py::handle& item, const char* key) {
  return item[key].cast<T>();
}

std::vector<DType> dtypes_from(const py::handle& names) {
  std::vector<DType> dtypes;
  for (const auto& name : names) {
    for (int i = 0; i < kDTypeCount; ++i) {
      if (name.cast<std::string>() == dtype_name(static_cast<DType>(i))) {
        dtypes.push_back(static_cast<DType>(i));
      }
    }
  }
  return dtypes;
}

Access access_from(const std::string& name) {
  const auto* place = std::find(std::begin(kAccessNames), std::end(kAccessNames), name);
  return static_cast<Access>(place - std::begin(kAccessNames));
}

AttributeType type_from(const std::string& name) {
  const auto* place = std::find(std::begin(kTypeNames), std::end(kTypeNames), name);
  return static_cast<AttributeType>(place - std::begin(kTypeNames));
}

void run_rule(const py::function& rule, ShapeContext& context, size_t inputs) {
  const py::gil_scoped_acquire gil;
  py::list shapes, dtypes, values;
  for (size_t i = 0; i < inputs; ++i) {
    shapes.append(to_python(context.inputs_[i]));
    const std::optional<DType> dtype = context.dtype(i);
    dtypes.append(dtype ? py::object(py::str(dtype_name(*dtype))) : py::none());
    values.append(py::cast(context.values(i)));
  }
  const auto results =
      rule(shapes, dtypes, values, to_python(context.attributes())).cast<py::list>();
  for (size_t i = 0; i < results.size(); ++i) {
    const auto lengths = results[i].cast<std::optional<PyDims>>();
    if (lengths) context.set_output(i, to_dims(*lengths));
  }
}

}  // namespace

namespace {

thread_local const PrototypeBody* current = nullptr;

}  // namespace

PrototypeBody::PrototypeBody(std::function<void()> body)
    : body_(std::move(body)), outer_(std::exchange(current, this)) {}
PrototypeBody::~PrototypeBody() { current = outer_; }
void PrototypeBody::run() {
  if (current != nullptr) current->body_();
}

Op prototype(const py::dict& description, py::function rule) {
  Op op(get<std::string>(description, "name"));
  op.onnx_type = get<std::string>(description, "onnx_type");
  op.since_version = get<int>(description, "since_version");
  op.summary = get<std::string>(description, "doc");
  for (const auto& item : get<py::dict>(description, "types")) {
    op.types.push_back({item.first.cast<std::string>(), dtypes_from(item.second)});
  }
  for (const auto& item : get<py::list>(description, "inputs")) {
    Input input{get<std::string>(item, "name"), get<std::string>(item, "type"),
                get<std::string>(item, "doc")};
    input.is_optional = get<bool>(item, "optional");
    input.has_values = get<bool>(item, "values");
    input.access_mode = access_from(get<std::string>(item, "access"));
    op.inputs.push_back(std::move(input));
  }
  for (const auto& item : get<py::list>(description, "outputs")) {
    op.outputs.push_back({get<std::string>(item, "name"), get<std::string>(item, "type"),
                          get<std::string>(item, "doc")});
  }
  for (const auto& item : get<py::list>(description, "attributes")) {
    op.attributes.push_back({get<std::string>(item, "name"),
                             convert(type_from(get<std::string>(item, "type")), item["default"]),
                             get<std::string>(item, "doc"),
                             get<std::vector<std::string>>(item, "choices")});
  }
  const size_t inputs = op.inputs.size();
  op.shape_rule = [rule = std::move(rule), inputs](ShapeContext& context) {
    run_rule(rule, context, inputs);
  };
  op.compute = [](KernelContext& context) {
    context.report("python", "all of it", "the function of a prototype");
    PrototypeBody::run();
  };
  check_description(op);
  return op;
}

}  // namespace myops::numpy
