// What a call on a CUDA device takes from ONNX Runtime: the stream of the call, and memory.
#pragma once

#include <vector>

#include "abi.h"
#include "myops/cuda.h"

namespace myops::ort {

// Scratch memory is that of the session's allocator for the stream of the call. It is given back
// when the call ends; the allocator does not give it to another stream before the work is done.
class CudaDevice final : public cuda::Device {
 public:
  // `memory`: that of a tensor on the device.
  CudaDevice(const Api& api, ComputeContext* context, const MemoryInfo* memory);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  int index() const override { return index_; }
  void* stream() const override { return stream_; }
  void* scratch(size_t bytes) override;
  bool allow_tf32() const override;

 private:
  const Api& api_;
  ComputeContext* context_;
  const MemoryInfo* memory_;
  int index_ = 0;
  void* stream_ = nullptr;
  std::vector<void*> scratch_;
};

}  // namespace myops::ort
