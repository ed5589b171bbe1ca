#include "fast_call.h"

#include <memory>
#include <optional>

#include "../../core/out_argument.h"
#include "../numpy/released_gil.h"
#include "device_call.h"
#include "recorded_call.h"

namespace myops::fast_call {
namespace {

// Whether python_tensor() shares the tensor instead of taking ownership, as the name of the
// function behind it suggests, which is internal to torch.
bool wraps_as_expected(const Binding& binding) {
  void* data = nullptr;
  void* tensor = binding.services.new_tensor(DType::Float32, {}, {}, &data);
  if (tensor == nullptr) return false;
  const py::object shared = binding.python_tensor(tensor);
  if (!py::hasattr(shared, "_use_count")) return false;
  if (shared.attr("_use_count")().cast<int64_t>() != 2) return false;
  binding.services.delete_tensor(tensor);
  return true;
}

// A kernel that reads and writes at most this many bytes runs with the GIL held: releasing it took
// longer than my_add of 1,000 elements. Even an op whose time grows with the square of the number
// of elements then ends within Python's switch interval of 5 ms.
constexpr size_t kGilHeldBytes = 16 << 10;

class FastCallRuntime final : public Runtime {
 public:
  // `out`: the caller's tensor for the result, or null; `out_object`: the same as a Python object.
  FastCallRuntime(const Binding& binding, const Tensors& inputs, Tensor* out, PyObject* out_object,
                  NewTensors& made)
      : binding_(binding), inputs_(inputs), out_(out), out_object_(out_object), made_(made) {
    for (const Tensor& input : inputs) bytes_ += byte_count(input.shape, input.dtype);
  }
  // The last step that needs Python. (A kernel that decides lengths of its outputs calls this while
  // it runs.)
  Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout layout) override {
    return allocate_strided(output, dtype, shape, strides_for(shape, layout));
  }

  Tensor allocate_strided(size_t output, DType dtype, const Shape& shape,
                          const Shape& strides) override {
    require_plain(dtype != DType::String);
    bytes_ += byte_count(shape, dtype);
    if (out_ != nullptr) return accept(dtype, shape, strides);
    release_gil();
    std::optional<Tensor> tensor = made_.make(output, dtype, shape, strides);
    require_plain(tensor.has_value());
    return *std::move(tensor);
  }

  // Called for kernels that decide lengths of their outputs: how long they take is not known, so
  // the GIL is released.
  void begin_kernel() override {
    if (!released_gil_) released_gil_.emplace();
  }

  void run(int64_t count, Task task, void* argument) override {
    binding_.services.run_tasks(count, task, argument);
  }

  const char* name() const override { return "torch fast call"; }

 private:
  Tensor accept(DType dtype, const Shape& shape, const Shape& strides) {
    const bool released = released_gil_.has_value();
    released_gil_.reset();
    Tensor accepted = accept_output(binding_.op, inputs_, std::move(*out_), dtype, shape, strides);
    // Last, because a call that is refused must not count as a write.
    require_plain(binding_.count_write(out_object_));
    if (released) begin_kernel();
    release_gil();
    return accepted;
  }

  void release_gil() {
    if (bytes_ > kGilHeldBytes && !released_gil_) released_gil_.emplace();
  }

  const Binding& binding_;
  const Tensors& inputs_;
  Tensor* out_;
  PyObject* out_object_;
  NewTensors& made_;  // after a failure the GIL may still be released: no Python objects yet
  size_t bytes_ = 0;
  std::optional<numpy::ReleasedGil> released_gil_;
};

bool observed(const Binding& binding) {
  if (const TorchInternals* internals = binding.reader.internals) return internals->observed();
  for (const py::object& observer : binding.observers) {
    if (is_true(PyObject_CallNoArgs(observer.ptr()))) return true;
  }
  return false;
}

// The result of Op::prepare for the inputs, or null.
Prepared find_prepared(const Binding& binding, PyObject* input_tuple, const Tensors& inputs,
                       const Attributes& attributes) {
  Prepared prepared;
  const TorchInternals* internals = binding.reader.internals;
  if (internals == nullptr) return prepared;
  SmallVector<const void*, 6> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(input_tuple, static_cast<Py_ssize_t>(i));
    const bool is_tensor = inputs[i].present && !PyList_Check(item) && !PyTuple_Check(item);
    tensors.push_back(is_tensor ? internals->tensor_of(item) : nullptr);
  }
  std::string error;
  if (!binding.services.find_prepared(binding.op, inputs, attributes, tensors, prepared, error)) {
    throw Error(error);
  }
  return prepared;
}

// Not part of call_on_cpu(), because its code would slow down the ops that prepare nothing.
[[gnu::noinline, gnu::cold]] void invoke_prepared(const Binding& binding, PyObject* input_tuple,
                                                  const Tensors& inputs,
                                                  const Attributes& attributes,
                                                  FastCallRuntime& runtime) {
  const Prepared prepared = find_prepared(binding, input_tuple, inputs, attributes);
  invoke(binding.op, inputs, attributes, runtime, prepared.get(), &binding.cache_of(inputs));
}

void call_on_cpu(const Binding& binding, PyObject* input_tuple, const Tensors& inputs,
                 const Attributes& attributes, Tensor* out, PyObject* out_object,
                 NewTensors& made) {
  FastCallRuntime runtime(binding, inputs, out, out_object, made);
  if (binding.op.prepared_inputs.empty()) {
    invoke(binding.op, inputs, attributes, runtime, nullptr, &binding.cache_of(inputs));
  } else {
    invoke_prepared(binding, input_tuple, inputs, attributes, runtime);
  }
}

// Tells autograd that the first result is that of `call`.
void record(const Binding& binding, PyObject* input_tuple, const NewTensors& made,
            const RecordedCall& call) {
  if (!binding.reader.internals->record(input_tuple, made.at(0), call)) {
    throw py::error_already_set();
  }
}

py::object results(const Binding& binding, const NewTensors& made) {
  const auto output = [&](size_t index) -> py::object {
    void* const tensor = made.at(index);
    return tensor != nullptr ? binding.python_tensor(tensor) : py::none();  // None: left out
  };
  const size_t count = binding.op.outputs.size();
  if (count == 1) return output(0);
  py::tuple outputs(count);
  for (size_t i = 0; i < count; ++i) outputs[i] = output(i);
  return outputs;
}

py::object call(const Binding& binding, PyObject* input_tuple, PyObject* attribute_dict,
                PyObject* out_object) {
  require_plain(!observed(binding));
  PyObject* level = PyDict_GetItemWithError(binding.forward_ad.ptr(), binding.level.ptr());
  require_plain(level != nullptr && integer(level) < 0);
  const bool differentiable = binding.services.grad_enabled();
  // Before the inputs: a copy-on-write tensor gets memory of its own here, and an input that is the
  // same tensor must be read at its new address.
  std::optional<Tensor> out;
  DLDevice place_of_out{kDLCPU, 0};
  if (out_object != Py_None) {
    require_plain(binding.op.outputs.size() == 1);
    out = binding.reader.read(out_object, true, place_of_out, true);
  }
  const bool recorded =
      differentiable && out_object == Py_None && is_recorded(binding, input_tuple);
  PlainInputs inputs(binding.op, binding.reader, input_tuple, differentiable && !recorded);
  require_plain(!out || inputs.device.is(place_of_out));
  std::optional<Attributes> own;
  const Attributes& given = binding.attributes_of(attribute_dict, own);
  Tensor* const target = out ? &*out : nullptr;
  NewTensors made(binding);
  if (inputs.device.index() == CallDevice::kCpu) {
    call_on_cpu(binding, input_tuple, inputs.tensors, given, target, out_object, made);
  } else {
    call_on_cuda(binding, inputs, given, target, out_object, made);
  }
  if (out) return py::reinterpret_borrow<py::object>(out_object);
  if (recorded) {
    record(binding, input_tuple, made,
           record_call(binding, input_tuple, attribute_dict, std::move(inputs), given));
  }
  return results(binding, made);
}

PyObject* call_from_python(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 3) {
    PyErr_SetString(PyExc_TypeError, "expected inputs, attributes, out");
    return nullptr;
  }
  const auto* binding = static_cast<const Binding*>(PyCapsule_GetPointer(self, kCapsuleName));
  try {
    return call(*binding, arguments[0], arguments[1], arguments[2]).release().ptr();
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
    "fast_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_from_python)),
    METH_FASTCALL, "f(inputs, attributes, out)"};

template <class Function>
Function function_at(const py::handle& address) {
  return reinterpret_cast<Function>(address.cast<uintptr_t>());
}

}  // namespace

py::object make_fast_call(const Op& op, const py::dict& parts) {
  // Only the dispatcher tells autograd, views and transformations of a write.
  if (op.writes()) return py::none();
  const auto* exchange = static_cast<const DLPackExchangeAPI*>(
      PyCapsule_GetPointer(parts["exchange"].ptr(), kDlpackCapsule));
  if (exchange == nullptr) throw py::error_already_set();
  if (exchange->header.version.major != 1 || exchange->dltensor_from_py_object_no_sync == nullptr)
    return py::none();
  const TorchInternals* internals = nullptr;
  if (PyCapsule_IsValid(parts["internals"].ptr(), kTorchInternals) != 0) {
    internals = static_cast<const TorchInternals*>(
        PyCapsule_GetPointer(parts["internals"].ptr(), kTorchInternals));
  }
  const Services services{function_at<decltype(Services::run_tasks)>(parts["run_tasks"]),
                          function_at<decltype(Services::new_tensor)>(parts["new_tensor"]),
                          function_at<decltype(Services::delete_tensor)>(parts["delete_tensor"]),
                          function_at<decltype(Services::grad_enabled)>(parts["grad_enabled"]),
                          function_at<decltype(Services::find_prepared)>(parts["find_prepared"]),
                          function_at<decltype(Services::cuda_op)>(parts["cuda_op"]),
                          function_at<decltype(Services::call_on_cuda)>(parts["call_on_cuda"])};
  std::unique_ptr<Binding> binding(
      new Binding{op,
                  Attributes(op.attributes),
                  services,
                  {internals, exchange, parts["tensor"], parts["parameter"], parts["is_neg"],
                   parts["is_conj"], parts["requires_grad"], parts["uint8"], parts["int8"]},
                  parts["wrap"],
                  parts["bump"],
                  parts["forward_ad"].attr("__dict__"),
                  parts["watchers"].cast<std::vector<py::object>>(),
                  "_current_level",
                  services.cuda_op(op.name.c_str())});
  binding->constant = parts["constant"];
  binding->is_inference = parts["is_inference"];
  if (!wraps_as_expected(*binding)) return py::none();
  const py::capsule self(binding.release(), kCapsuleName, [](PyObject* capsule) {
    delete static_cast<Binding*>(PyCapsule_GetPointer(capsule, kCapsuleName));
  });
  return take(PyCFunction_New(&definition, self.ptr()));
}

void use_gradient(const py::object& call, const py::object& gradient, const py::object& python,
                  const std::string& summed) {
  const auto binding_of = [](const py::object& function) {
    return static_cast<Binding*>(
        PyCapsule_GetPointer(PyCFunction_GET_SELF(function.ptr()), kCapsuleName));
  };
  Binding *binding = binding_of(call), *backward = binding_of(gradient);
  if (binding == nullptr || backward == nullptr) throw py::error_already_set();
  if (binding->reader.internals == nullptr) return;
  std::optional<Gradient> found = gradient_of(binding->op, *backward, summed);
  if (!found) return;
  found->owner = gradient;
  found->python = python;
  binding->gradient.emplace(std::move(*found));
}

}  // namespace myops::fast_call
