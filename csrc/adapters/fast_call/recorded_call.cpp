#include "recorded_call.h"

#include <algorithm>

#include "device_call.h"

namespace myops::fast_call {
namespace {

constexpr uint64_t bit(int index) { return uint64_t{1} << index; }

struct Call {
  const Gradient& gradient;
  py::object owner;       // of `gradient`
  PlainInputs inputs;     // addresses of tensors are not valid any more
  uint64_t saved;         // see RecordedCall
  Attributes attributes;  // of the op that computes the gradients
  // For Python: the attributes, and of each input its list, its shape if nothing else is read, or
  // None, in whose place a saved tensor is put.
  py::object given;
  py::tuple others;
};

// Makes new tensors, without Python.
class NewTensorsRuntime final : public Runtime {
 public:
  NewTensorsRuntime(const Binding& binding, NewTensors& made) : binding_(binding), made_(made) {}

  Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout layout) override {
    return allocate_strided(output, dtype, shape, strides_for(shape, layout));
  }
  Tensor allocate_strided(size_t output, DType dtype, const Shape& shape,
                          const Shape& strides) override {
    std::optional<Tensor> tensor = made_.make(output, dtype, shape, strides);
    if (!tensor) throw std::bad_alloc();
    return *std::move(tensor);
  }
  void run(int64_t count, Task task, void* argument) override {
    binding_.services.run_tasks(count, task, argument);
  }
  const char* name() const override { return "torch fast call"; }

 private:
  const Binding& binding_;
  NewTensors& made_;
};

// Runs the op that computes the gradients. False where it refuses the call.
bool run(const Binding& binding, const CallDevice& device, const Tensors& inputs,
         const Attributes& attributes, NewTensors& made) {
  if (device.index() != CallDevice::kCpu) {
    return gradients_on_cuda(binding, device.index(), inputs, attributes, made);
  }
  NewTensorsRuntime runtime(binding, made);
  invoke(binding.op, inputs, attributes, runtime, nullptr, &binding.cache_of(inputs));
  return true;
}

// The attributes of the op that computes the gradients, for one backward pass.
Attributes with_needs(const Call& call, uint64_t needed) {
  const Gradient& gradient = call.gradient;
  std::vector<int64_t> needs(gradient.op.op.outputs.size(), 0);
  for (size_t i = 0; i < gradient.outputs.size(); ++i) {
    const int output = gradient.outputs[i];
    if (output != Gradient::kNone) needs[static_cast<size_t>(output)] = needed >> i & 1;
  }
  Attributes attributes = call.attributes;
  attributes.set(static_cast<size_t>(gradient.needs), std::move(needs));
  return attributes;
}

bool gradients(void* recorded, const DLTensor* tensors, uint64_t needed, void** made) {
  const Call& call = *static_cast<const Call*>(recorded);
  const Gradient& gradient = call.gradient;
  const Op& op = gradient.op.op;
  try {
    Tensors inputs;
    CallDevice device;
    inputs.reserve(op.inputs.size());
    const auto add = [&](const DLTensor& tensor) {
      device.add(op, inputs.size(), tensor.device);
      inputs.push_back(tensor_of(tensor));
    };
    add(tensors[0]);
    for (const int ours : gradient.inputs) {
      // The saved inputs follow one another in their order.
      const auto place = __builtin_popcountll(call.saved & (bit(ours) - 1));
      if ((call.saved & bit(ours)) != 0) {
        add(tensors[1 + place]);
      } else {
        inputs.push_back(call.inputs.tensors[static_cast<size_t>(ours)]);
      }
    }
    const bool on_cuda = device.index() != CallDevice::kCpu;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].present && !op.inputs[i].accepts_layout(inputs[i], on_cuda)) return false;
    }
    NewTensors results(gradient.op);
    const bool is_made = gradient.needs == Gradient::kNone
                             ? run(gradient.op, device, inputs, call.attributes, results)
                             : run(gradient.op, device, inputs, with_needs(call, needed), results);
    if (!is_made) return false;
    for (size_t i = 0; i < gradient.outputs.size(); ++i) {
      const int output = gradient.outputs[i];
      if ((needed >> i & 1) != 0 && output != Gradient::kNone) {
        made[i] = results.take(static_cast<size_t>(output));
      }
    }
    return true;
  } catch (const NotPlain&) {
    return false;
  } catch (const std::exception&) {
    return false;  // Python makes the same call and says what is wrong
  }
}

PyObject* gradients_in_python(void* recorded, PyObject* grad, PyObject* saved, PyObject* needed) {
  const Call& call = *static_cast<const Call*>(recorded);
  try {
    py::tuple inputs(call.others.size());
    Py_ssize_t next = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_saved = (call.saved & bit(static_cast<int>(i))) != 0;
      inputs[i] = is_saved ? py::handle(PyTuple_GET_ITEM(saved, next++)) : call.others[i];
    }
    return PyObject_CallFunctionObjArgs(call.gradient.python.ptr(), grad, inputs.ptr(), needed,
                                        call.given.ptr(), nullptr);
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

py::object shape_of(const Tensor& tensor) {
  py::tuple shape(tensor.shape.size());
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) shape[axis] = tensor.shape[axis];
  return shape;
}

template <class Items>
int index_of(const Items& items, const std::string& name) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
  return found == items.end() ? Gradient::kNone : static_cast<int>(found - items.begin());
}

bool is_list(PyObject* item) { return PyList_CheckExact(item) || PyTuple_CheckExact(item); }

}  // namespace

std::optional<Gradient> gradient_of(const Op& op, const Binding& gradient,
                                    const std::string& summed) {
  const Op& below = gradient.op;
  const bool one_result = op.outputs.size() == 1 && op.outputs[0].condition.empty();
  if (!one_result || op.is_variadic() || op.inputs.size() > kMostRecordedInputs) return {};
  if (below.writes() || !below.prepared_inputs.empty() || below.inputs.empty()) return {};
  Gradient result{gradient, {}, {}};
  for (size_t i = 1; i < below.inputs.size(); ++i) {
    result.inputs.push_back(index_of(op.inputs, below.inputs[i].name));
    if (result.inputs.back() == Gradient::kNone) return {};
  }
  for (const Input& input : op.inputs) {
    result.outputs.push_back(index_of(below.outputs, "grad_" + input.name));
  }
  // The other attributes are those of the op, in the same order.
  result.needs = index_of(below.attributes, "needs");
  const size_t others = below.attributes.size() - (result.needs == Gradient::kNone ? 0 : 1);
  if (others != op.attributes.size()) return {};
  for (size_t i = 0; i < others; ++i) {
    if (below.attributes[i].name != op.attributes[i].name) return {};
  }
  result.summed = index_of(op.inputs, summed);
  return result;
}

bool is_recorded(const Binding& binding, PyObject* input_tuple) {
  if (!binding.gradient || !PyTuple_CheckExact(input_tuple)) return false;
  bool any = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(input_tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(input_tuple, i);
    if (item == Py_None || is_list(item)) continue;
    any = any || binding.reader.internals->requires_grad(item);
  }
  return any;
}

RecordedCall record_call(const Binding& binding, PyObject* input_tuple, PyObject* attribute_dict,
                         PlainInputs inputs, const Attributes& attributes) {
  const Gradient& gradient = *binding.gradient;
  const Op& below = gradient.op.op;
  const size_t count = inputs.tensors.size();
  uint64_t tensors = 0, saved = 0;
  py::tuple others(count);
  for (size_t i = 0; i < count; ++i) {
    PyObject* item = PyTuple_GET_ITEM(input_tuple, static_cast<Py_ssize_t>(i));
    others[i] = py::none();
    if (is_list(item)) {
      others[i] = take(PySequence_List(item));  // the list of the caller may change later
    } else if (item != Py_None) {
      tensors |= bit(static_cast<int>(i));
    }
  }
  for (size_t k = 0; k < gradient.inputs.size(); ++k) {
    const int ours = gradient.inputs[k];
    if ((tensors & bit(ours)) == 0) continue;
    const Input& read = below.inputs[k + 1];
    // Python makes a tensor of this shape, with the dtype of `grad`.
    if (read.access_mode == Access::ShapeOnly && read.type == below.inputs[0].type) {
      others[static_cast<size_t>(ours)] = shape_of(inputs.tensors[static_cast<size_t>(ours)]);
    } else {
      saved |= bit(ours);
    }
  }
  Attributes same(below.attributes);
  for (size_t i = 0; i < attributes.values().size(); ++i) same.set(i, attributes.value(i));
  auto* call = new Call{gradient,          gradient.owner,
                        std::move(inputs), saved,
                        std::move(same),   take(PyDict_Copy(attribute_dict)),
                        std::move(others)};
  return {call, count, tensors, saved, gradient.summed, gradients, gradients_in_python, forget};
}

}  // namespace myops::fast_call
