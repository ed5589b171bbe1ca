#include "direct.h"

#include <array>
#include <memory>

#include "../../core/dispatcher_schema.h"
#include "../../core/given_output.h"
#include "dlpack.h"

namespace myops::numpy {
namespace {

struct NotPlain {};  // thrown: the dispatcher must do it

using RunTasks = void (*)(int64_t, Runtime::Task, void*);

struct Torch {
  const Op& op;
  const dlpack::ExchangeApi* exchange;
  RunTasks run_tasks;
  py::object tensor, parameter;                      // types
  py::object empty, empty_like, grad_enabled, bump;  // functions
  py::object forward_ad;                             // module
  std::vector<py::object> watchers;                  // functions: whether somebody watches
  std::vector<py::object> dtypes;                    // in the order of DType
  py::str requires_grad, is_neg, is_inference, level, dtype;
};

py::object take(PyObject* result) {
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

bool holds(PyObject* result) {
  const py::object held = take(result);
  const int truth = PyObject_IsTrue(held.ptr());
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

void expect(bool plain) {
  if (!plain) throw NotPlain();
}

DType dtype_of(const dlpack::DataType& type) {
  expect(type.lanes == 1);
  switch (type.code << 8 | type.bits) {
    case dlpack::kFloat << 8 | 16:
      return DType::Float16;
    case dlpack::kBFloat << 8 | 16:
      return DType::BFloat16;
    case dlpack::kFloat << 8 | 32:
      return DType::Float32;
    case dlpack::kFloat << 8 | 64:
      return DType::Float64;
    case dlpack::kUInt << 8 | 8:
      return DType::UInt8;
    case dlpack::kInt << 8 | 32:
      return DType::Int32;
    case dlpack::kInt << 8 | 64:
      return DType::Int64;
    default:
      throw NotPlain();
  }
}

Tensor view(const Torch& torch, PyObject* object) {
  dlpack::Tensor seen;
  if (torch.exchange->tensor_from_object(object, &seen) != 0) {
    PyErr_Clear();  // a sparse tensor, say: the dispatcher has the words for it
    throw NotPlain();
  }
  expect(seen.device.type == dlpack::kCpu);
  Shape shape(seen.shape, seen.shape + seen.rank);
  Shape strides = seen.strides == nullptr ? strides_for(shape, Layout::Contiguous)
                                          : Shape(seen.strides, seen.strides + seen.rank);
  return Tensor(static_cast<char*>(seen.data) + seen.byte_offset, dtype_of(seen.dtype),
                std::move(shape), std::move(strides));
}

// A tensor that is what it says: no subclass, no lazy negation.
Tensor plain_tensor(const Torch& torch, PyObject* object, bool differentiable) {
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  expect(type == torch.tensor.ptr() || type == torch.parameter.ptr());
  expect(!differentiable || !holds(PyObject_GetAttr(object, torch.requires_grad.ptr())));
  expect(!holds(PyObject_CallMethodNoArgs(object, torch.is_neg.ptr())));
  return view(torch, object);
}

bool is_list(PyObject* object) { return PyList_CheckExact(object) || PyTuple_CheckExact(object); }

int64_t integer(PyObject* object) {
  expect(PyLong_CheckExact(object));
  const long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw NotPlain();
  }
  return value;
}

double real(PyObject* object) {
  return PyFloat_CheckExact(object) ? PyFloat_AS_DOUBLE(object)
                                    : static_cast<double>(integer(object));
}

template <class T, class Convert>
std::vector<T> numbers(PyObject* list, const Convert& convert) {
  expect(is_list(list));
  std::vector<T> values(static_cast<size_t>(PySequence_Fast_GET_SIZE(list)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = convert(PySequence_Fast_GET_ITEM(list, static_cast<Py_ssize_t>(i)));
  }
  return values;
}

AttributeValue attribute(const Attribute& declared, PyObject* value) {
  switch (declared.type()) {
    case AttributeType::Bool:
      expect(PyBool_Check(value));
      return value == Py_True;
    case AttributeType::Int:
      return integer(value);
    case AttributeType::Float:
      return real(value);
    case AttributeType::String:
      expect(PyUnicode_CheckExact(value));
      return py::handle(value).cast<std::string>();
    case AttributeType::Ints:
      return numbers<int64_t>(value, integer);
    case AttributeType::Floats:
      return numbers<double>(value, real);
  }
  throw std::bad_variant_access();
}

Attributes plain_attributes(const Op& op, PyObject* given) {
  Attributes values(op.attributes);
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(given, &at, &key, &value) != 0;) {
    size_t index = 0;
    while (index < op.attributes.size() &&
           PyUnicode_CompareWithASCIIString(key, op.attributes[index].name.c_str()) != 0) {
      ++index;
    }
    expect(index < op.attributes.size());
    values.set(index, attribute(op.attributes[index], value));
  }
  return values;
}

// The inputs of a call; lists of numbers live here.
struct Inputs {
  std::vector<Tensor> tensors;
  std::vector<std::vector<double>> reals;
  std::vector<std::vector<int64_t>> integers;

  Inputs(const Torch& torch, PyObject* given, bool differentiable) {
    const Op& op = torch.op;
    const size_t count = op.inputs.size();
    expect(PyTuple_CheckExact(given) && static_cast<size_t>(PyTuple_GET_SIZE(given)) == count);
    tensors.reserve(count);
    bool lists = false, values = false;
    for (size_t i = 0; i < count; ++i) {
      PyObject* item = PyTuple_GET_ITEM(given, static_cast<Py_ssize_t>(i));
      const Input& input = op.inputs[i];
      if (item == Py_None) {
        tensors.emplace_back();
      } else if (input.has_values && is_list(item)) {
        tensors.push_back(list(op, input, item));
        lists = true;
      } else {
        tensors.push_back(plain_tensor(torch, item, differentiable));
        expect(fits(input, tensors.back()));
        values = values || input.has_values;
      }
    }
    expect(!(lists && values));  // the dispatcher has no overload for both
  }

 private:
  Tensor list(const Op& op, const Input& input, PyObject* item) {
    if (integer_values(op, input)) {
      std::vector<int64_t>& kept = integers.emplace_back(numbers<int64_t>(item, integer));
      return Tensor(kept.data(), DType::Int64, {static_cast<int64_t>(kept.size())});
    }
    std::vector<double>& kept = reals.emplace_back(numbers<double>(item, real));
    return Tensor(kept.data(), DType::Float64, {static_cast<int64_t>(kept.size())});
  }

  // Whether the kernel can walk it as it is.
  static bool fits(const Input& input, const Tensor& tensor) {
    return input.access_mode == Access::Strided || input.access_mode == Access::ShapeOnly ||
           tensor.is(Layout::Contiguous) ||
           (input.access_mode == Access::ChannelsLast && tensor.is(Layout::ChannelsLast));
  }
};

class DirectRuntime final : public Runtime {
 public:
  // `given`: the objects behind the inputs.
  DirectRuntime(const Torch& torch, PyObject* given, const std::vector<Tensor>& inputs,
                const Tensor* out)
      : torch_(torch), given_(given), inputs_(inputs), out_(out) {}

  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    if (out_ != nullptr) return accept_output(torch_.op, inputs_, *out_, dtype, shape, layout);
    const py::gil_scoped_acquire gil;
    outputs.push_back(empty(dtype, shape, strides_for(shape, layout)));
    return view(torch_, outputs.back().ptr());
  }

  void run(int64_t count, Task task, void* argument) override {
    torch_.run_tasks(count, task, argument);
  }

  std::vector<py::object> outputs;

 private:
  py::object empty(DType dtype, const Shape& shape, const Shape& strides) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {  // half as long as with lengths and strides
      const Tensor& input = inputs_[i];
      if (input.present && input.dtype == dtype && input.shape == shape &&
          input.strides == strides && !torch_.op.inputs[i].has_values) {
        PyObject* like = PyTuple_GET_ITEM(given_, static_cast<Py_ssize_t>(i));
        return take(PyObject_CallOneArg(torch_.empty_like.ptr(), like));
      }
    }
    const py::object& type = torch_.dtypes[static_cast<size_t>(dtype)];
    return torch_.empty(to_tuple(shape), to_tuple(strides), py::arg("dtype") = type);
  }
  static py::tuple to_tuple(const Shape& lengths) {
    py::tuple tuple(lengths.size());
    for (size_t i = 0; i < lengths.size(); ++i) tuple[i] = py::int_(lengths[i]);
    return tuple;
  }

  const Torch& torch_;
  PyObject* given_;
  const std::vector<Tensor>& inputs_;
  const Tensor* out_;
};

py::object call(const Torch& torch, PyObject* given, PyObject* given_attributes,
                PyObject* given_out) {
  for (const py::object& watcher : torch.watchers) {
    expect(!holds(PyObject_CallNoArgs(watcher.ptr())));
  }
  expect(integer(take(PyObject_GetAttr(torch.forward_ad.ptr(), torch.level.ptr())).ptr()) < 0);
  const bool differentiable = holds(PyObject_CallNoArgs(torch.grad_enabled.ptr()));
  const Inputs inputs(torch, given, differentiable);
  const Attributes attributes = plain_attributes(torch.op, given_attributes);
  std::optional<Tensor> out;
  if (given_out != Py_None) {
    expect(torch.op.outputs.size() == 1);
    out = plain_tensor(torch, given_out, true);
    expect(!holds(PyObject_CallMethodNoArgs(given_out, torch.is_inference.ptr())));
  }
  DirectRuntime runtime(torch, given, inputs.tensors, out ? &*out : nullptr);
  {
    const py::gil_scoped_release release;
    invoke(torch.op, inputs.tensors, attributes, runtime);
  }
  if (out) {
    torch.bump(py::make_tuple(py::handle(given_out)));  // autograd counts what is written
    return py::reinterpret_borrow<py::object>(given_out);
  }
  if (runtime.outputs.size() == 1) return std::move(runtime.outputs[0]);
  return py::tuple(py::cast(runtime.outputs));
}

constexpr const char* kTorch = "myops.direct";

PyObject* call_from_python(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "expected inputs, attributes, out");
    return nullptr;
  }
  const auto* torch = static_cast<const Torch*>(PyCapsule_GetPointer(self, kTorch));
  try {
    return call(*torch, arguments[0], arguments[1], arguments[2]).release().ptr();
  } catch (const NotPlain&) {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());  // as torch does it
  }
  return nullptr;
}

PyMethodDef definition = {
    "direct", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_from_python)),
    METH_FASTCALL, "f(inputs, attributes, out)"};

std::vector<py::object> items(const py::handle& list) {
  return list.cast<std::vector<py::object>>();
}

}  // namespace

py::object direct(const Op& op, const py::dict& parts) {
  const auto* exchange = static_cast<const dlpack::ExchangeApi*>(
      PyCapsule_GetPointer(parts["exchange"].ptr(), dlpack::kCapsule));
  if (exchange == nullptr) throw py::error_already_set();
  if (exchange->version.major != 1 || exchange->tensor_from_object == nullptr) return py::none();
  const auto address = parts["run_tasks"].cast<uintptr_t>();
  auto torch = std::make_unique<Torch>(
      Torch{op, exchange, reinterpret_cast<RunTasks>(address), parts["tensor"], parts["parameter"],
            parts["empty"], parts["empty_like"], parts["grad_enabled"], parts["bump"],
            parts["forward_ad"], items(parts["watchers"]), items(parts["dtypes"]), "requires_grad",
            "is_neg", "is_inference", "_current_level", "dtype"});
  const py::capsule self(torch.release(), kTorch, [](PyObject* capsule) {
    delete static_cast<Torch*>(PyCapsule_GetPointer(capsule, kTorch));
  });
  return take(PyCFunction_New(&definition, self.ptr()));
}

}  // namespace myops::numpy
