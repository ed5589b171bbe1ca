// A call on a CUDA device, as far as it does not depend on who makes it: torch's dispatcher
// (cuda.cpp) or a fast call (cuda_call.cpp).
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "myops/cuda.h"

namespace myops::torch_adapter {

// Functions of torch's CUDA library, which this library must not need.
struct TorchCuda {
  AOTITorchError (*get_current_stream)(int32_t device, void** stream);
  AOTITorchError (*create_guard)(int32_t device, void** guard);
  AOTITorchError (*delete_guard)(void* guard);
};

// Throws an Error in a build of torch without CUDA.
const TorchCuda& torch_cuda(const Op& op);

// The device of the call is the current one as long as this exists.
class DeviceGuard {
 public:
  DeviceGuard(const TorchCuda& functions, int32_t index);
  ~DeviceGuard() { (void)functions_.delete_guard(handle_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const TorchCuda& functions_;
  void* handle_ = nullptr;
};

// All memory is that of torch's allocator, for the current stream: memory that is freed is used
// again by work that is queued behind the work of this call.
class CudaRuntime : public Runtime, public cuda::Device {
 public:
  // `has_out`: accept() returns the memory for the result.
  CudaRuntime(const Op& op, int32_t index, bool has_out);
  ~CudaRuntime() override;
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;

  Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout layout) override {
    return allocate_strided(output, dtype, shape, strides_for(shape, layout));
  }
  Tensor allocate_strided(size_t output, DType dtype, const Shape& shape,
                          const Shape& strides) override;
  void run(int64_t count, Task task, void* argument) override;
  const char* name() const override { return "torch cuda"; }

  cuda::Device* cuda_device() override { return this; }
  int index() const override { return index_; }
  void* stream() const override { return stream_; }
  void* scratch(size_t bytes) override;
  bool allow_tf32() const override;

  // The new tensors, by output; null where none was made.
  size_t made() const { return outputs_.size(); }
  // The caller owns the tensor from now on.
  AtenTensorHandle take(size_t output);

 protected:
  // The caller's tensor for the result, as the kernel writes it.
  virtual Tensor accept(DType dtype, const Shape& shape, const Shape& strides) = 0;
  const Op& op() const { return op_; }

 private:
  AtenTensorHandle new_tensor(DType dtype, const Shape& shape, const Shape& strides) const;

  const Op& op_;
  const int32_t index_;
  const bool has_out_;
  void* stream_ = nullptr;
  SmallVector<AtenTensorHandle, 6> outputs_, scratch_;
};

}  // namespace myops::torch_adapter
