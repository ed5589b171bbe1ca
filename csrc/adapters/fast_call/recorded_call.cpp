#include "recorded_call.h"

namespace myops::fast_call {
namespace {

struct Call {
  const Gradient& gradient;
  py::object owner;    // of `gradient`
  PlainInputs inputs;  // the address of the first is not valid any more
  Attributes attributes;
  py::object others, given;  // the inputs but the first, and the attributes, for Python
};

// Makes one new tensor, without Python.
class NewTensorRuntime final : public Runtime {
 public:
  explicit NewTensorRuntime(const Binding& binding) : binding_(binding) {}
  ~NewTensorRuntime() override {
    if (tensor_ != nullptr) binding_.services.delete_tensor(tensor_);
  }

  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    Shape strides = strides_for(shape, layout);
    void* data = nullptr;
    tensor_ = binding_.new_tensor(dtype, shape, strides, &data);
    if (tensor_ == nullptr) throw std::bad_alloc();
    return Tensor(data, dtype, shape, std::move(strides));
  }
  void run(int64_t count, Task task, void* argument) override {
    binding_.services.run_tasks(count, task, argument);
  }
  const char* name() const override { return "torch fast call"; }

  void* take() { return std::exchange(tensor_, nullptr); }

 private:
  const Binding& binding_;
  void* tensor_ = nullptr;
};

void* gradient(void* recorded, const DLTensor& described) {
  const Call& call = *static_cast<const Call*>(recorded);
  const Binding& binding = call.gradient.op;
  try {
    Tensors inputs;
    inputs.reserve(call.inputs.tensors.size() + 1);
    inputs.push_back(tensor_of(described));
    if (!binding.op.inputs[0].accepts_layout(inputs[0])) return nullptr;
    for (const Tensor& input : call.inputs.tensors) inputs.push_back(input);
    NewTensorRuntime runtime(binding);
    invoke(binding.op, inputs, call.attributes, runtime, nullptr, &binding.cache_of(inputs));
    return runtime.take();
  } catch (const NotPlain&) {
    return nullptr;
  } catch (const std::exception&) {
    return nullptr;  // Python makes the same call and says what is wrong
  }
}

PyObject* gradient_in_python(void* recorded, PyObject* grad) {
  const Call& call = *static_cast<const Call*>(recorded);
  const Shape& lengths = call.inputs.tensors[0].shape;
  try {
    py::tuple shape(lengths.size());
    for (size_t axis = 0; axis < lengths.size(); ++axis) shape[axis] = lengths[axis];
    return PyObject_CallFunctionObjArgs(call.gradient.python.ptr(), grad, shape.ptr(),
                                        call.others.ptr(), call.given.ptr(), nullptr);
  } catch (py::error_already_set& error) {
    error.restore();
  }
  return nullptr;
}

// Called by whichever thread frees the graph.
void forget(void* recorded) {
  auto* call = static_cast<Call*>(recorded);
  if (Py_IsInitialized() == 0) return;  // the process ends
  const PyGILState_STATE state = PyGILState_Ensure();
  delete call;
  PyGILState_Release(state);
}

}  // namespace

bool is_recorded(const Binding& binding, PyObject* input_tuple) {
  if (!binding.gradient || !PyTuple_CheckExact(input_tuple)) return false;
  const Py_ssize_t count = PyTuple_GET_SIZE(input_tuple);
  if (count == 0 || !binding.reader.internals->requires_grad(PyTuple_GET_ITEM(input_tuple, 0))) {
    return false;
  }
  for (Py_ssize_t i = 1; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(input_tuple, i);
    if (item != Py_None && !PyList_CheckExact(item) && !PyTuple_CheckExact(item)) return false;
  }
  return true;
}

RecordedCall record_call(const Binding& binding, PyObject* input_tuple, PyObject* attribute_dict,
                         PlainInputs inputs, const Attributes& attributes) {
  const Gradient& declared = *binding.gradient;
  // The lists of the caller may change later.
  py::tuple others(static_cast<size_t>(PyTuple_GET_SIZE(input_tuple) - 1));
  for (size_t i = 0; i < others.size(); ++i) {
    PyObject* item = PyTuple_GET_ITEM(input_tuple, static_cast<Py_ssize_t>(i) + 1);
    others[i] = item == Py_None ? py::none() : take(PySequence_List(item));
  }
  auto* call = new Call{declared,   declared.owner,    std::move(inputs),
                        attributes, std::move(others), take(PyDict_Copy(attribute_dict))};
  return {call, gradient, gradient_in_python, forget};
}

}  // namespace myops::fast_call
