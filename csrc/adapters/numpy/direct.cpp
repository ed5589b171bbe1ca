#include "direct.h"

#include <memory>
#include <optional>

#include "../../core/given_output.h"
#include "../../core/shape_cache.h"
#include "others_run.h"
#include "plain.h"

namespace myops::numpy {
namespace {

// C functions of the op's torch library.
struct Services {
  void (*run_tasks)(int64_t, Runtime::Task, void*);
  void* (*new_tensor)(DType, const Shape&, const Shape&, void** data);
  void (*delete_tensor)(void*);
  bool (*grad_enabled)();
};

struct Torch {
  const Op& op;
  const Attributes defaults;
  Services services;
  TensorReader reader;
  py::object wrap;                   // function: a Python tensor from a new one's handle
  py::object bump;                   // function
  py::object forward_ad;             // module
  std::vector<py::object> watchers;  // functions: whether somebody watches
  py::str level;
  mutable ShapeCache last = {};
  py::object is_inference = {};  // method; asked of `out` only

  // It shares `tensor`, which is not taken over.
  py::object python_tensor(void* tensor) const {
    if (reader.internals != nullptr) return take(reader.internals->wrap(tensor));
    const py::object capsule = take(PyCapsule_New(tensor, nullptr, nullptr));
    return take(PyObject_CallOneArg(wrap.ptr(), capsule.ptr()));
  }
};

// Whether python_tensor() does as it says. The function behind it is internal to torch, and has a
// name that says otherwise.
bool wraps_as_expected(const Torch& torch) {
  void* data = nullptr;
  void* tensor = torch.services.new_tensor(DType::Float32, {}, {}, &data);
  if (tensor == nullptr) return false;
  const py::object shared = torch.python_tensor(tensor);
  if (!py::hasattr(shared, "_use_count")) return false;
  if (shared.attr("_use_count")().cast<int64_t>() != 2) return false;
  torch.services.delete_tensor(tensor);
  return true;
}

// Other threads of Python may run while a kernel does, unless it has this little to read and write:
// handing over took longer than my_add of 1,000 elements. An op that compares everything with
// everything is through with it within Python's own interval of 5 ms, too.
constexpr size_t kBrief = 16 << 10;  // bytes

// Autograd counts what is written. False for what it does not count.
bool count_write(const Torch& torch, PyObject* out) {
  if (const TorchInternals* internals = torch.reader.internals) return internals->count_write(out);
  if (holds(PyObject_CallOneArg(torch.is_inference.ptr(), out))) return false;
  const py::object outs = py::make_tuple(py::handle(out));
  PyObject* none = PyObject_CallOneArg(torch.bump.ptr(), outs.ptr());
  if (none == nullptr) PyErr_Clear();
  Py_XDECREF(none);
  return none != nullptr;
}

class DirectRuntime final : public Runtime {
 public:
  // `out`: where the result goes, and the tensor that it is, or null.
  DirectRuntime(const Torch& torch, const Tensors& inputs, Tensor* out, PyObject* given_out)
      : torch_(torch), inputs_(inputs), out_(out), given_out_(given_out) {
    for (const Tensor& input : inputs) bytes_ += byte_count(input.shape, input.dtype);
  }
  ~DirectRuntime() override {
    // After a failure others may still run: they know nothing of these.
    for (void* tensor : new_tensors_) torch_.services.delete_tensor(tensor);
  }

  // What is left before the kernel needs nothing of Python.
  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    bytes_ += byte_count(shape, dtype);
    if (out_ != nullptr) return given(dtype, shape, layout);
    let_others_run();
    Shape strides = strides_for(shape, layout);
    void* data = nullptr;
    void* tensor = torch_.services.new_tensor(dtype, shape, strides, &data);
    expect(tensor != nullptr);
    new_tensors_.push_back(tensor);
    return Tensor(data, dtype, shape, std::move(strides));
  }

  void run(int64_t count, Task task, void* argument) override {
    torch_.services.run_tasks(count, task, argument);
  }

  // Before anything of Python is used again.
  void end() { others_run_.reset(); }

  size_t count() const { return new_tensors_.size(); }
  py::object output(size_t index) const { return torch_.python_tensor(new_tensors_[index]); }

 private:
  Tensor given(DType dtype, const Shape& shape, Layout layout) {
    Tensor accepted = accept_output(torch_.op, inputs_, std::move(*out_), dtype, shape, layout);
    expect(count_write(torch_, given_out_));  // not before: a call that is refused writes nothing
    let_others_run();
    return accepted;
  }

  void let_others_run() {
    if (bytes_ > kBrief && !others_run_) others_run_.emplace();
  }

  const Torch& torch_;
  const Tensors& inputs_;
  Tensor* out_;
  PyObject* given_out_;
  SmallVector<void*, 6> new_tensors_;
  size_t bytes_ = 0;
  std::optional<OthersRun> others_run_;
};

bool watched(const Torch& torch) {
  if (const TorchInternals* internals = torch.reader.internals) return internals->watched();
  for (const py::object& watcher : torch.watchers) {
    if (holds(PyObject_CallNoArgs(watcher.ptr()))) return true;
  }
  return false;
}

py::object call(const Torch& torch, PyObject* given, PyObject* given_attributes,
                PyObject* given_out) {
  expect(!watched(torch));
  expect(integer(take(PyObject_GetAttr(torch.forward_ad.ptr(), torch.level.ptr())).ptr()) < 0);
  const bool differentiable = torch.services.grad_enabled();
  // Before the inputs: a tensor that shares memory until somebody writes gets its own here, and an
  // input that is the same tensor must not be seen where it was before.
  std::optional<Tensor> out;
  if (given_out != Py_None) {
    expect(torch.op.outputs.size() == 1);
    out = torch.reader.read(given_out, true, true);
  }
  const PlainInputs inputs(torch.op, torch.reader, given, differentiable);
  std::optional<Attributes> attributes;
  expect(PyDict_CheckExact(given_attributes) != 0);
  if (PyDict_GET_SIZE(given_attributes) != 0) {
    attributes = plain_attributes(torch.op, given_attributes);
  }
  DirectRuntime runtime(torch, inputs.tensors, out ? &*out : nullptr, given_out);
  invoke(torch.op, inputs.tensors, attributes ? *attributes : torch.defaults, runtime, nullptr,
         &torch.last);
  runtime.end();
  if (out) return py::reinterpret_borrow<py::object>(given_out);
  if (runtime.count() == 1) return runtime.output(0);
  py::tuple outputs(runtime.count());
  for (size_t i = 0; i < runtime.count(); ++i) outputs[i] = runtime.output(i);
  return outputs;
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

template <class Function>
Function function_at(const py::handle& address) {
  return reinterpret_cast<Function>(address.cast<uintptr_t>());
}

}  // namespace

py::object direct(const Op& op, const py::dict& parts) {
  const auto* exchange = static_cast<const dlpack::ExchangeApi*>(
      PyCapsule_GetPointer(parts["exchange"].ptr(), dlpack::kCapsule));
  if (exchange == nullptr) throw py::error_already_set();
  if (exchange->version.major != 1 || exchange->tensor_from_object == nullptr) return py::none();
  const TorchInternals* internals = nullptr;
  if (PyCapsule_IsValid(parts["internals"].ptr(), kTorchInternals) != 0) {
    internals = static_cast<const TorchInternals*>(
        PyCapsule_GetPointer(parts["internals"].ptr(), kTorchInternals));
  }
  const Services services{function_at<decltype(Services::run_tasks)>(parts["run_tasks"]),
                          function_at<decltype(Services::new_tensor)>(parts["new_tensor"]),
                          function_at<decltype(Services::delete_tensor)>(parts["delete_tensor"]),
                          function_at<decltype(Services::grad_enabled)>(parts["grad_enabled"])};
  std::unique_ptr<Torch> torch(new Torch{op,
                                         Attributes(op.attributes),
                                         services,
                                         {internals, exchange, parts["tensor"], parts["parameter"],
                                          parts["is_neg"], parts["requires_grad"]},
                                         parts["wrap"],
                                         parts["bump"],
                                         parts["forward_ad"],
                                         parts["watchers"].cast<std::vector<py::object>>(),
                                         "_current_level"});
  torch->is_inference = parts["is_inference"];
  if (!wraps_as_expected(*torch)) return py::none();
  const py::capsule self(torch.release(), kTorch, [](PyObject* capsule) {
    delete static_cast<Torch*>(PyCapsule_GetPointer(capsule, kTorch));
  });
  return take(PyCFunction_New(&definition, self.ptr()));
}

}  // namespace myops::numpy
