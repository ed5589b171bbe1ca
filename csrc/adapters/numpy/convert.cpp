#include "convert.h"

#include <algorithm>
#include <type_traits>

#include "description.h"

namespace myops::numpy {

py::dtype to_numpy(DType dtype) {
  if (dtype == DType::String) return py::dtype("O");  // of str, as in ONNX Runtime
  // NumPy has none of these dtypes; the package ml_dtypes (which onnx uses) defines them
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

// The text of a Python str; any other object is refused.
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

AttributeValue from_python(AttributeType type, const py::handle& value) {
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

py::object to_python(const AttributeValue& value) {
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
      values.set(index, from_python(type, item.second));
    } catch (const py::cast_error&) {
      fail(op.name, name, py::repr(item.second), type_name(type));
    }
  }
  return values;
}

py::dict to_python(const Attributes& attributes) {
  py::dict values;
  for (size_t i = 0; i < attributes.declared().size(); ++i) {
    values[attributes.declared()[i].name.c_str()] = to_python(attributes.value(i));
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

}  // namespace myops::numpy
