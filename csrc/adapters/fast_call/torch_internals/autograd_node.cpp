#include "autograd_node.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>
#include <torch/csrc/utils/pybind.h>
#pragma GCC diagnostic pop

namespace myops::torch_internals {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A tensor whose bytes are the recorded call. Compiled autograd accepts few types of data in a
// node, and a tensor is one of them.
at::Tensor owner_of(const RecordedCall& call) {
  auto* kept = new RecordedCall(call);
  const auto forget = [](void* bytes) {
    const auto* recorded = static_cast<RecordedCall*>(bytes);
    recorded->forget(recorded->call);
    delete recorded;
  };
  return at::from_blob(kept, {sizeof(RecordedCall)}, forget, at::kByte);
}

THPObjectPtr python_tuple(size_t size) {
  THPObjectPtr tuple(PyTuple_New(static_cast<Py_ssize_t>(size)));
  if (!tuple) throw python_error();
  return tuple;
}

// The gradients of the inputs that are tensors, of which gradient(i) is that of input i.
template <class Make>
variable_list gradients_of_tensors(const RecordedCall& call, const Make& gradient) {
  variable_list results;
  results.reserve(static_cast<size_t>(__builtin_popcountll(call.tensors)));
  for (uint64_t rest = call.tensors; rest != 0; rest &= rest - 1) {
    results.push_back(gradient(static_cast<size_t>(__builtin_ctzll(rest))));
  }
  return results;
}

variable_list gradients_in_python(const RecordedCall& call, const at::Tensor& grad,
                                  const variable_list& saved, uint64_t needed) {
  const pybind11::gil_scoped_acquire gil;
  THPObjectPtr given(THPVariable_Wrap(grad));
  if (!given) throw python_error();
  THPObjectPtr tensors = python_tuple(saved.size()), flags = python_tuple(call.inputs);
  for (size_t i = 0; i < saved.size(); ++i) {
    PyObject* tensor = THPVariable_Wrap(saved[i]);
    if (tensor == nullptr) throw python_error();
    PyTuple_SET_ITEM(tensors.get(), static_cast<Py_ssize_t>(i), tensor);
  }
  for (size_t i = 0; i < call.inputs; ++i) {
    PyTuple_SET_ITEM(flags.get(), static_cast<Py_ssize_t>(i), PyBool_FromLong(needed >> i & 1));
  }
  THPObjectPtr made(call.in_python(call.call, given.get(), tensors.get(), flags.get()));
  if (!made) throw python_error();
  return gradients_of_tensors(call, [&](size_t i) {
    PyObject* item = PyTuple_GetItem(made.get(), static_cast<Py_ssize_t>(i));
    if (item == nullptr) throw python_error();
    const bool is_made = (needed >> i & 1) != 0 && item != Py_None;
    return is_made ? THPVariable_Unpack(item) : at::Tensor();
  });
}

// Handles of new tensors, by input.
using Handles = c10::SmallVector<void*, kMostRecordedInputs>;

// False where the kernel cannot read a tensor.
bool gradients_without_python(const RecordedCall& call, const at::Tensor& grad,
                              const variable_list& saved, uint64_t needed, Handles& made) {
  DLTensor described[1 + kMostRecordedInputs];
  if (!describe(grad, false, false, &described[0])) return false;
  for (size_t i = 0; i < saved.size(); ++i) {
    if (!describe(saved[i], false, false, &described[1 + i])) return false;
  }
  return call.gradients(call.call, described, needed, made.data());
}

// The sum for each channel: the gradient of a bias. On the CPU by our op, whose order of the sum
// does not depend on threads and layout.
at::Tensor sum_of_channels(const at::Tensor& grad) {
  if (!grad.is_cpu()) return grad.sum({0, 2, 3});
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("myops::channel_sums", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(grad);
}

// The gradients of the inputs that are tensors.
variable_list gradients_of(const RecordedCall& call, const at::Tensor& grad,
                           const variable_list& saved, uint64_t needed) {
  // In grad mode the gradients are differentiated again.
  const bool in_python = c10::GradMode::is_enabled() || observed();
  const uint64_t summed = call.summed < 0 ? 0 : needed & uint64_t{1} << call.summed;
  const uint64_t others = needed & ~summed;
  Handles made(call.inputs, nullptr);
  // The gradient of sum() is expanded, for example, which not every kernel can read.
  if (in_python || !(others == 0 || gradients_without_python(call, grad, saved, others, made) ||
                     gradients_without_python(call, grad.contiguous(), saved, others, made))) {
    return gradients_in_python(call, grad, saved, needed);
  }
  return gradients_of_tensors(call, [&](size_t i) {
    if ((summed >> i & 1) != 0) return sum_of_channels(grad);
    const std::unique_ptr<at::Tensor> tensor(static_cast<at::Tensor*>(made[i]));
    return tensor == nullptr ? at::Tensor() : std::move(*tensor);
  });
}

// A node of the graph that needs no Python, which takes half of a small gradient's time.
struct FastGradient : torch::autograd::Function<FastGradient> {
  // `tensors`: those of the inputs.
  static at::Tensor forward(AutogradContext* context, const at::TensorList& tensors,
                            const at::Tensor* result, const RecordedCall* call) {
    context->saved_data["call"] = owner_of(*call);
    variable_list saved;
    auto next = tensors.begin();
    for (uint64_t rest = call->tensors; rest != 0; rest &= rest - 1, ++next) {
      if ((call->saved & rest & -rest) != 0) saved.push_back(*next);
    }
    context->save_for_backward(std::move(saved));
    return *result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor owner = context->saved_data.begin()->second.toTensor();
    const RecordedCall& call = call_of(owner);
    variable_list results =
        gradients_of(call, grads[0], saved_of(*context, call), needed_of(*context, call));
    results.resize(results.size() + 2);  // `result` and `call` have none
    return results;
  }

  static const RecordedCall& call_of(const at::Tensor& owner) {
    return *static_cast<const RecordedCall*>(owner.const_data_ptr());
  }

  // If nothing was saved, torch would refuse a second backward pass, for which nothing is missing.
  static variable_list saved_of(const AutogradContext& context, const RecordedCall& call) {
    return call.saved == 0 ? variable_list() : context.get_saved_variables();
  }

  static uint64_t needed_of(const AutogradContext& context, const RecordedCall& call) {
    uint64_t needed = 0;
    size_t edge = 0;
    for (uint64_t rest = call.tensors; rest != 0; rest &= rest - 1, ++edge) {
      if (context.needs_input_grad(edge)) needed |= rest & -rest;
    }
    return needed;
  }
};

}  // namespace
}  // namespace myops::torch_internals

// Without torch's check of the number of gradients, for whose message torch composes the name of
// the node at every call: a tenth of the time of a small gradient. Torch's lock protects what is
// read from the node here; the kernel runs without it.
template <>
torch::autograd::variable_list
torch::autograd::CppNode<myops::torch_internals::FastGradient>::apply(
    torch::autograd::variable_list&& inputs) {
  using namespace myops::torch_internals;
  if (!inputs[0].defined()) {
    return CppNode_apply_functional<FastGradient>(std::move(inputs), ctx_, is_variable_input_,
                                                  output_info_, name());
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const at::Tensor owner = ctx_.saved_data.begin()->second.toTensor();
  const myops::RecordedCall& call = FastGradient::call_of(owner);
  const variable_list saved = FastGradient::saved_of(ctx_, call);
  lock.unlock();
  return gradients_of(call, inputs[0], saved, FastGradient::needed_of(ctx_, call));
}

namespace myops::torch_internals {

bool record(PyObject* inputs, void* result, const RecordedCall& call) {
  try {
    variable_list tensors;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
      if ((call.tensors >> i & 1) != 0) {
        tensors.push_back(THPVariable_Unpack(PyTuple_GET_ITEM(inputs, i)));
      }
    }
    auto& made = *static_cast<at::Tensor*>(result);
    const at::Tensor* raw = &made;
    made = FastGradient::apply(at::TensorList(tensors), raw, &call);
    return true;
  } catch (const std::exception& error) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, error.what());
    return false;
  }
}

}  // namespace myops::torch_internals
