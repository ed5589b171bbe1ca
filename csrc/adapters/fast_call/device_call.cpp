#include "device_call.h"

#include "../numpy/released_gil.h"

namespace myops::fast_call {
namespace {

// What counts a write to the caller's tensor, while the call runs without the GIL.
struct Write {
  const Binding& binding;
  PyObject* out;
  std::optional<numpy::ReleasedGil> released_gil = {};

  static bool count(void* write) {
    auto& self = *static_cast<Write*>(write);
    self.released_gil.reset();
    bool counted = false;
    try {
      counted = self.binding.count_write(self.out);
    } catch (const py::error_already_set&) {
      // The dispatcher makes the call and says what is wrong.
    }
    self.released_gil.emplace();
    return counted;
  }
};

}  // namespace

void call_on_cuda(const Binding& binding, const PlainInputs& inputs, const Attributes& attributes,
                  const Tensor* out, PyObject* out_object, NewTensors& made) {
  require_plain(binding.cuda_op != nullptr);
  const int32_t device = inputs.device.index();
  Write write{binding, out_object};
  const CudaCall call{*binding.cuda_op,
                      device,
                      inputs.tensors,
                      attributes,
                      binding.cache_of(inputs.tensors, device),
                      made.all(),
                      out,
                      Write::count,
                      &write};
  std::string error;
  // Always without the GIL: torch's allocator and the driver may wait for the device, and work
  // there may depend on what another Python thread queues.
  write.released_gil.emplace();
  const CudaOutcome outcome = binding.services.call_on_cuda(call, error);
  write.released_gil.reset();
  require_plain(outcome != CudaOutcome::NotCounted);
  if (outcome == CudaOutcome::Refused) throw Error(error);
}

bool gradients_on_cuda(const Binding& binding, int32_t device, const Tensors& inputs,
                       const Attributes& attributes, NewTensors& made) {
  if (binding.cuda_op == nullptr) return false;
  const CudaCall call{
      *binding.cuda_op, device, inputs, attributes, binding.cache_of(inputs, device), made.all()};
  std::string error;
  return binding.services.call_on_cuda(call, error) == CudaOutcome::Made;
}

}  // namespace myops::fast_call
