#include "cuda_call.h"

#include <exception>

#include "../../core/out_argument.h"
#include "cuda_runtime.h"

namespace myops::torch_adapter {
namespace {

struct NotCounted : NotAFailure {};

class FastRuntime final : public CudaRuntime {
 public:
  explicit FastRuntime(const CudaCall& call)
      : CudaRuntime(call.op, call.device, call.out != nullptr), call_(call) {}

 private:
  Tensor accept(DType dtype, const Shape& shape, const Shape& strides) override {
    Tensor accepted = accept_output(call_.op, call_.inputs, *call_.out, dtype, shape, strides);
    // Last, because a call that is refused must not count as a write.
    if (!call_.count_write(call_.caller)) throw NotCounted();
    return accepted;
  }

  const CudaCall& call_;
};

void run(const CudaCall& call) {
  const DeviceGuard guard(torch_cuda(call.op), call.device);
  FastRuntime runtime(call);
  invoke(call.op, call.inputs, call.attributes, runtime, nullptr, call.last);
  call.made.resize(runtime.made(), nullptr);
  for (size_t i = 0; i < runtime.made(); ++i) call.made[i] = runtime.take(i);
}

}  // namespace
}  // namespace myops::torch_adapter

#define MYOPS_VISIBLE extern "C" __attribute__((visibility("default")))

// The op with its kernel for CUDA; null if it has none.
MYOPS_VISIBLE const myops::Op* myops_cuda_op(const char* name) {
  const myops::Op* op = myops::find_op(name);
  if (op == nullptr || op->compute_cuda == nullptr) return nullptr;
  return &myops::cuda::on_device(*op);
}

MYOPS_VISIBLE myops::CudaOutcome myops_call_on_cuda(const myops::CudaCall& call,
                                                    std::string& error) {
  try {
    myops::torch_adapter::run(call);
    return myops::CudaOutcome::Made;
  } catch (const myops::torch_adapter::NotCounted&) {
    return myops::CudaOutcome::NotCounted;
  } catch (const std::exception& refused) {
    error = refused.what();
  }
  return myops::CudaOutcome::Refused;
}
