#include "description.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "convert.h"

namespace myops::numpy {
namespace {

constexpr const char* kAutocastNames[] = {"", "lower", "float32", "widest"};
constexpr const char* kTypeNames[] = {"bool",   "int",     "float",  "string", "ints",
                                      "floats", "strings", "double", "doubles"};
constexpr const char* kAccessNames[] = {"contiguous", "channels_last", "strided", "strided",
                                        "shape_only"};

}  // namespace

const char* type_name(AttributeType type) { return kTypeNames[static_cast<int>(type)]; }

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
                            "only_if"_a = output.condition,
                            "elementwise"_a = output.is_elementwise));
  }
  for (const Attribute& attribute : op.attributes) {
    const bool none = attribute.is_required || attribute.is_optional;
    const py::object value = none ? py::none() : to_python(attribute.default_value);
    const py::object choices = attribute.integers.empty()
                                   ? py::object(py::tuple(py::cast(attribute.choices)))
                                   : py::object(py::tuple(py::cast(attribute.integers)));
    attributes.append(
        py::dict("name"_a = attribute.name, "type"_a = type_name(attribute.type()),
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
                 value.is_none() ? value_of_type(type) : from_python(type, value),
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
    op = std::move(op).attribute(attribute_from(op, item));
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
