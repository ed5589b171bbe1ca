#include "convert.h"

#include <algorithm>
#include <type_traits>

namespace myops::numpy {
namespace {

constexpr const char* kAutocastNames[] = {"", "lower", "float32", "widest"};
constexpr const char* kTypeNames[] = {"bool",   "int",     "float",  "string", "ints",
                                      "floats", "strings", "double", "doubles"};
constexpr const char* kAccessNames[] = {"contiguous", "channels_last", "strided", "shape_only"};

}  // namespace

py::dtype to_numpy(DType dtype) {
  if (dtype == DType::String) return py::dtype("O");  // of str, as in ONNX Runtime
  // NumPy has none of these; ml_dtypes (which onnx uses) brings them
  if (dtype == DType::BFloat16 || dtype == DType::Float8E4M3FN || dtype == DType::Float8E5M2) {
    return py::dtype::from_args(py::module_::import("ml_dtypes").attr(dtype_name(dtype)));
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
  struct Known {
    char kind;
    py::ssize_t size;
    DType dtype;
  };
  constexpr Known kKnown[] = {
      {'f', 4, DType::Float32},   {'f', 8, DType::Float64},    {'f', 2, DType::Float16},
      {'u', 1, DType::UInt8},     {'i', 4, DType::Int32},      {'i', 8, DType::Int64},
      {'b', 1, DType::Bool},      {'i', 1, DType::Int8},       {'i', 2, DType::Int16},
      {'u', 2, DType::UInt16},    {'u', 4, DType::UInt32},     {'u', 8, DType::UInt64},
      {'c', 8, DType::Complex64}, {'c', 16, DType::Complex128}};
  for (const Known& known : kKnown) {
    if (known.kind == kind && known.size == size) return known.dtype;
  }
  if (kind == 'O') return DType::String;
  return from_name(op, input, py::str(type.attr("name")));
}

// The text of a Python str; what is none is refused.
std::string text_of(const Op& op, const Input& input, PyObject* item) {
  if (PyUnicode_Check(item) == 0) {
    fail(op.name, input.name, str("an element of type ", Py_TYPE(item)->tp_name), "a str");
  }
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(item, &size);
  if (data != nullptr) return std::string(data, static_cast<size_t>(size));
  PyErr_Clear();
  fail(op.name, input.name, "a str with an unpaired surrogate", "one that UTF-8 can write");
}

}  // namespace

Tensor Strings::read(const Op& op, const Input& input, const py::array& array, Budget& budget) {
  const auto count = static_cast<size_t>(array.size());
  budget.take(op.name, input.name, "a copy of its strings", count * sizeof(std::string));
  std::vector<std::string>& strings = read_.emplace_back();
  strings.reserve(count);
  const auto* items = static_cast<PyObject* const*>(array.data());
  for (size_t i = 0; i < count; ++i) {
    strings.push_back(text_of(op, input, items[i]));
    budget.take(op.name, input.name, "a copy of its strings", strings.back().size());
  }
  return Tensor(strings.data(), DType::String, Shape(array.shape(), array.shape() + array.ndim()));
}

void* Strings::make(const Op& op, size_t output, const py::array& array) {
  const auto count = static_cast<size_t>(array.size());
  made_.push_back({&op.outputs[output].name, array, std::vector<std::string>(count)});
  return made_.back().strings.data();
}

void Strings::write(const Op& op) const {
  for (const Result& result : made_) {
    auto** items = static_cast<PyObject**>(const_cast<void*>(result.array.data()));
    for (size_t i = 0; i < result.strings.size(); ++i) {
      const std::string& text = result.strings[i];
      PyObject* made =
          PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict");
      if (made == nullptr) {
        PyErr_Clear();
        fail(op.name, *result.name, str("the bytes ", quoted(text), " from the kernel"), "UTF-8");
      }
      Py_XDECREF(items[i]);
      items[i] = made;
    }
  }
}

Tensor view(const Op& op, const Input& input, const py::array& array, Strings& strings,
            Budget& budget) {
  const DType dtype = dtype_of(op, input, array);
  if (dtype == DType::String) {
    const std::vector<DType>& legal = op.dtypes(input.type);
    if (std::find(legal.begin(), legal.end(), dtype) == legal.end()) {
      refuse_dtype(op, input, "string");
    }
    return strings.read(op, input, array, budget);
  }
  const auto size = static_cast<py::ssize_t>(dtype_size(dtype));
  Shape shape(array.shape(), array.shape() + array.ndim());
  Shape strides;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    strides.push_back(array.strides(axis) / size);
  }
  return Tensor(const_cast<void*>(array.data()), dtype, std::move(shape), std::move(strides));
}

namespace {

AttributeValue convert(AttributeType type, const py::handle& value) {
  switch (type) {
    case AttributeType::Bool:
      return value.cast<int64_t>() != 0;
    case AttributeType::Int:
      return value.cast<int64_t>();
    case AttributeType::Float:
    case AttributeType::Double:
      return value.cast<double>();
    case AttributeType::String:
      return value.cast<std::string>();
    case AttributeType::Ints:
      return value.cast<std::vector<int64_t>>();
    case AttributeType::Floats:
    case AttributeType::Doubles:
      return value.cast<std::vector<double>>();
    case AttributeType::Strings:
      return value.cast<std::vector<std::string>>();
  }
  throw std::bad_variant_access();
}

py::object python_value(const AttributeValue& value) {
  if (!value.given()) return py::none();
  return std::visit(
      [](const auto& held) -> py::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return py::none();
        } else {
          return py::cast(held);
        }
      },
      value.held());
}

}  // namespace

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
    if (item.second.is_none() && op.attributes[index].is_optional) continue;
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
    values[attributes.declared()[i].name.c_str()] = python_value(attributes.value(i));
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
    } else if (const auto* decided = std::get_if<PyDecided>(&length)) {
      const auto& [name, most] = *decided;
      dims.push_back(Dim::at_most(most ? Dim(*most) : Dim(), name));
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
    } else if (dim.decided()) {
      const int64_t most = dim.most();
      lengths.append(py::make_tuple(
          dim.symbol, most < 0 ? py::object(py::none()) : py::object(py::int_(most))));
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
                           "access"_a = kAccessNames[static_cast<int>(input.access_mode)],
                           "variadic"_a = input.is_variadic, "written"_a = input.is_written));
  }
  for (const Output& output : op.outputs) {
    outputs.append(py::dict("name"_a = output.name, "type"_a = output.type, "doc"_a = output.doc,
                            "may_overwrite"_a = py::tuple(py::cast(output.overwritten)),
                            "only_if"_a = output.condition));
  }
  for (const Attribute& attribute : op.attributes) {
    const bool none = attribute.is_required || attribute.is_optional;
    const py::object value = none ? py::none() : python_value(attribute.default_value);
    const py::object choices = attribute.integers.empty()
                                   ? py::object(py::tuple(py::cast(attribute.choices)))
                                   : py::object(py::tuple(py::cast(attribute.integers)));
    attributes.append(py::dict(
        "name"_a = attribute.name, "type"_a = kTypeNames[static_cast<int>(attribute.type())],
        "default"_a = value, "doc"_a = attribute.doc, "choices"_a = choices,
        "required"_a = attribute.is_required, "optional"_a = attribute.is_optional,
        "at_least"_a = attribute.above_bound ? std::nullopt : attribute.bound,
        "above"_a = attribute.above_bound ? attribute.bound : std::nullopt,
        "at_most"_a = attribute.below_upper ? std::nullopt : attribute.upper,
        "below"_a = attribute.below_upper ? attribute.upper : std::nullopt));
  }
  return py::dict("name"_a = op.name, "onnx_type"_a = op.onnx_type,
                  "since_version"_a = op.since_version, "doc"_a = op.summary, "types"_a = types,
                  "inputs"_a = inputs, "outputs"_a = outputs, "attributes"_a = attributes,
                  "rule"_a = op.shape_text,
                  "autocast"_a = kAutocastNames[static_cast<int>(op.autocast_policy)],
                  "random"_a = op.is_random, "in_place"_a = op.in_place ? op.in_place->name : "");
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

Autocast autocast_from(const std::string& name) {
  const auto* place = std::find(std::begin(kAutocastNames), std::end(kAutocastNames), name);
  return static_cast<Autocast>(place - std::begin(kAutocastNames));
}

AttributeType type_from(const std::string& name) {
  const auto* place = std::find(std::begin(kTypeNames), std::end(kTypeNames), name);
  return static_cast<AttributeType>(place - std::begin(kTypeNames));
}

AttributeValue value_of_type(AttributeType type) {
  switch (type) {
    case AttributeType::Bool:
      return false;
    case AttributeType::Int:
      return int64_t{0};
    case AttributeType::Float:
    case AttributeType::Double:
      return 0.0;
    case AttributeType::String:
      return std::string();
    case AttributeType::Ints:
      return std::vector<int64_t>();
    case AttributeType::Floats:
    case AttributeType::Doubles:
      return std::vector<double>();
    case AttributeType::Strings:
      return std::vector<std::string>();
  }
  throw std::bad_variant_access();
}

Attribute attribute_from(const Op& op, const py::handle& item) {
  const AttributeType type = type_from(get<std::string>(item, "type"));
  const py::object value = item["default"];
  Attribute made{get<std::string>(item, "name"),
                 value.is_none() ? value_of_type(type) : convert(type, value),
                 get<std::string>(item, "doc")};
  for (const auto& choice : item["choices"]) {
    if (py::isinstance<py::str>(choice)) {
      made.choices.push_back(choice.cast<std::string>());
    } else {
      made.integers.push_back(choice.cast<int64_t>());
    }
  }
  made.is_required = get<bool>(item, "required");
  made.is_optional = get<bool>(item, "optional");
  made.is_exact = type == AttributeType::Double || type == AttributeType::Doubles;
  const auto above = get<std::optional<double>>(item, "above");
  const auto below = get<std::optional<double>>(item, "below");
  made.above_bound = above.has_value();
  made.bound = above ? above : get<std::optional<double>>(item, "at_least");
  made.below_upper = below.has_value();
  made.upper = below ? below : get<std::optional<double>>(item, "at_most");
  if (value.is_none() && !made.is_required && !made.is_optional) {
    fail(op.name, made.name, "no default", "one, or required=True, or optional=True");
  }
  return made;
}

void run_rule(const py::function& rule, ShapeContext& context) {
  const size_t inputs = context.input_count();
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

PrototypeBody::PrototypeBody(std::function<void(const KernelContext&)> body)
    : body_(std::move(body)), outer_(std::exchange(current, this)) {}
PrototypeBody::~PrototypeBody() { current = outer_; }
void PrototypeBody::run(const KernelContext& context) {
  if (current != nullptr) current->body_(context);
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
    input.is_variadic = get<bool>(item, "variadic");
    input.is_written = get<bool>(item, "written");
    op.inputs.push_back(std::move(input));
  }
  for (const auto& item : get<py::list>(description, "outputs")) {
    op.outputs.push_back({get<std::string>(item, "name"), get<std::string>(item, "type"),
                          get<std::string>(item, "doc")});
    op.outputs.back().condition = get<std::string>(item, "only_if");
  }
  for (const auto& item : get<py::list>(description, "attributes")) {
    op.attributes.push_back(attribute_from(op, item));
  }
  op.autocast_policy = autocast_from(get<std::string>(description, "autocast"));
  op.is_random = get<bool>(description, "random");
  const auto text = get<std::string>(description, "rule");
  if (text.empty()) {
    op.shape_rule = [rule = std::move(rule)](ShapeContext& context) { run_rule(rule, context); };
  } else {
    op = std::move(op).shape(text.c_str());
  }
  op.compute = [](KernelContext& context) {
    context.report("python", "all of it", "the function of a prototype");
    PrototypeBody::run(context);
  };
  complete(op);
  check_description(op);
  return op;
}

}  // namespace myops::numpy
