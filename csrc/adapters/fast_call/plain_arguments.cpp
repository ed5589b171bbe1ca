#include "plain_arguments.h"

#include "../../core/dispatcher_schema.h"

namespace myops::fast_call {
namespace {

DType dtype_of(const DLDataType& type) {
  require_plain(type.lanes == 1);
  switch (type.code << 8 | type.bits) {
    case kDLFloat << 8 | 16:
      return DType::Float16;
    case kDLBfloat << 8 | 16:
      return DType::BFloat16;
    case kDLFloat << 8 | 32:
      return DType::Float32;
    case kDLFloat << 8 | 64:
      return DType::Float64;
    case kDLUInt << 8 | 8:
      return DType::UInt8;
    case kDLInt << 8 | 32:
      return DType::Int32;
    case kDLInt << 8 | 64:
      return DType::Int64;
    case kDLBool << 8 | 8:
      return DType::Bool;
    case kDLInt << 8 | 8:
      return DType::Int8;
    case kDLInt << 8 | 16:
      return DType::Int16;
    case kDLUInt << 8 | 16:
      return DType::UInt16;
    case kDLUInt << 8 | 32:
      return DType::UInt32;
    case kDLUInt << 8 | 64:
      return DType::UInt64;
    case kDLComplex << 8 | 64:
      return DType::Complex64;
    case kDLComplex << 8 | 128:
      return DType::Complex128;
    case kDLFloat8_e4m3fn << 8 | 8:
      return DType::Float8E4M3FN;
    case kDLFloat8_e5m2 << 8 | 8:
      return DType::Float8E5M2;
    default:
      throw NotPlain();
  }
}

bool is_list(PyObject* object) { return PyList_CheckExact(object) || PyTuple_CheckExact(object); }

double real(PyObject* object) {
  return PyFloat_CheckExact(object) ? PyFloat_AS_DOUBLE(object)
                                    : static_cast<double>(integer(object));
}

std::string text(PyObject* object) {
  require_plain(PyUnicode_CheckExact(object));
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(object, &size);
  if (data == nullptr) {  // an unpaired surrogate, for example
    PyErr_Clear();
    throw NotPlain();
  }
  return std::string(data, static_cast<size_t>(size));
}

template <class T, class Convert>
std::vector<T> numbers(PyObject* list, const Convert& convert) {
  require_plain(is_list(list));
  std::vector<T> values(static_cast<size_t>(PySequence_Fast_GET_SIZE(list)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = convert(PySequence_Fast_GET_ITEM(list, static_cast<Py_ssize_t>(i)));
  }
  return values;
}

AttributeValue attribute(const Attribute& declared, PyObject* value) {
  if (value == Py_None && declared.is_optional) return std::monostate();
  switch (declared.type()) {
    case AttributeType::Bool:
      require_plain(PyBool_Check(value));
      return value == Py_True;
    case AttributeType::Int:
      return integer(value);
    case AttributeType::Float:
    case AttributeType::Double:
      return real(value);
    case AttributeType::String:
      return text(value);
    case AttributeType::Ints:
      return numbers<int64_t>(value, integer);
    case AttributeType::Floats:
    case AttributeType::Doubles:
      return numbers<double>(value, real);
    case AttributeType::Strings:
      return numbers<std::string>(value, text);
  }
  throw std::bad_variant_access();
}

}  // namespace

int64_t integer(PyObject* object) {
  require_plain(PyLong_CheckExact(object));
  const long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw NotPlain();
  }
  return value;
}

DLTensor TensorReader::read_through_dlpack(PyObject* object, bool differentiable) const {
  // No subclass, no lazy negation.
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  require_plain(type == tensor.ptr() || type == parameter.ptr());
  if (differentiable) {
    PyObject* getter = requires_grad.ptr();
    require_plain(!is_true(Py_TYPE(getter)->tp_descr_get(getter, object, nullptr)));
  }
  require_plain(!is_true(PyObject_CallOneArg(is_neg.ptr(), object)));
  DLTensor described;
  if (exchange->dltensor_from_py_object_no_sync(object, &described) != 0) {
    PyErr_Clear();  // a sparse tensor, for example: the dispatcher says what is wrong with it
    throw NotPlain();
  }
  const DLDeviceType device = described.device.device_type;
  require_plain(device == kDLCPU || device == kDLCUDA);
  if (described.dtype.code <= kDLUInt && described.dtype.bits == 8) {
    // DLPack describes integers of 1 to 7 bits, which take one byte each, as integers of 8.
    const py::object dtype = take(PyObject_GetAttrString(object, "dtype"));
    require_plain(dtype.is(uint8) || dtype.is(int8));
  }
  if (described.dtype.code == kDLComplex) {
    require_plain(!is_true(PyObject_CallOneArg(is_conj.ptr(), object)));  // conjugated lazily
  }
  return described;
}

Tensor tensor_of(const DLTensor& described) {
  Shape shape(described.shape, described.shape + described.ndim);
  Shape strides = described.strides == nullptr
                      ? strides_for(shape, Layout::Contiguous)
                      : Shape(described.strides, described.strides + described.ndim);
  // A tensor of zeros that torch represents without memory has no address.
  require_plain(described.data != nullptr || element_count(shape) == 0);
  return Tensor(static_cast<char*>(described.data) + described.byte_offset,
                dtype_of(described.dtype), std::move(shape), std::move(strides));
}

Tensor TensorReader::read(PyObject* object, bool differentiable, DLDevice& device,
                          bool written) const {
  DLTensor described;
  if (internals == nullptr) {
    described = read_through_dlpack(object, differentiable);
  } else {
    require_plain(internals->read(object, differentiable, written, &described));
  }
  device = described.device;
  return tensor_of(described);
}

void PlainInputs::add(const Op& op, const TensorReader& reader, PyObject* tensor,
                      bool differentiable) {
  DLDevice place;
  tensors.push_back(reader.read(tensor, differentiable, place));
  device.add(op, tensors.size() - 1, place);
  const bool on_cuda = place.device_type != kDLCPU;
  require_plain(op.declared(tensors.size() - 1).accepts_layout(tensors.back(), on_cuda));
}

PlainInputs::PlainInputs(const Op& op, const TensorReader& reader, PyObject* given,
                         bool differentiable) {
  const size_t count = op.inputs.size();
  require_plain(PyTuple_CheckExact(given) && static_cast<size_t>(PyTuple_GET_SIZE(given)) == count);
  tensors.reserve(count);
  bool lists = false, values = false;
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(given, static_cast<Py_ssize_t>(i));
    const Input& input = op.inputs[i];
    if (input.is_variadic) {
      require_plain(is_list(item));
      for (Py_ssize_t at = 0; at < PySequence_Fast_GET_SIZE(item); ++at) {
        PyObject* tensor = PySequence_Fast_GET_ITEM(item, at);
        kept.push_back(py::reinterpret_borrow<py::object>(tensor));
        add(op, reader, tensor, differentiable);
      }
    } else if (item == Py_None) {
      tensors.emplace_back();
    } else if (input.has_values && is_list(item)) {
      lists = true;
      if (integer_values(op, input)) {
        std::vector<int64_t>& list = integers.emplace_back(numbers<int64_t>(item, integer));
        tensors.emplace_back(list.data(), DType::Int64, Shape{static_cast<int64_t>(list.size())});
      } else {
        std::vector<double>& list = reals.emplace_back(numbers<double>(item, real));
        tensors.emplace_back(list.data(), DType::Float64, Shape{static_cast<int64_t>(list.size())});
      }
    } else {
      add(op, reader, item, differentiable);
      values = values || input.has_values;
    }
  }
  require_plain(!(lists && values));  // the dispatcher has no overload for both
}

Attributes plain_attributes(const Op& op, PyObject* given) {
  Attributes values(op.attributes);
  PyObject *key = nullptr, *value = nullptr;
  const size_t count = op.attributes.size();
  size_t index = 0;  // the search begins behind the last match: callers mostly follow the order
  for (Py_ssize_t at = 0; PyDict_Next(given, &at, &key, &value) != 0; ++index) {
    require_plain(PyUnicode_Check(key));
    size_t tried = 0;
    while (tried < count &&
           PyUnicode_CompareWithASCIIString(key, op.attributes[index % count].name.c_str()) != 0) {
      ++index, ++tried;
    }
    require_plain(tried < count);
    values.set(index % count, attribute(op.attributes[index % count], value));
  }
  return values;
}

}  // namespace myops::fast_call
