#include "cuda.h"

#include <cstring>

#include "status.h"
#include "typed_op.h"

namespace myops::ort {

CudaDevice::CudaDevice(const Api& api, ComputeContext* context, const MemoryInfo* memory)
    : api_(api), context_(context), memory_(memory) {
  check(api, api.MemoryInfoGetId(memory, &index_));
  check(api, api.KernelContext_GetGPUComputeStream(context, &stream_));
}

CudaDevice::~CudaDevice() {
  if (scratch_.empty()) return;
  Allocator* allocator = nullptr;
  if (!succeeded(api_, api_.KernelContext_GetAllocator(context_, memory_, &allocator))) return;
  for (void* memory : scratch_) (void)succeeded(api_, api_.AllocatorFree(allocator, memory));
  api_.ReleaseAllocator(allocator);
}

void* CudaDevice::scratch(size_t bytes) {
  scratch_.reserve(scratch_.size() + 1);
  void* memory = nullptr;
  check(api_, api_.KernelContext_GetScratchBuffer(context_, memory_, bytes, &memory));
  scratch_.push_back(memory);
  return memory;
}

// The provider's option; false for a provider that does not have it.
bool CudaDevice::allow_tf32() const {
  void* value = nullptr;
  if (!succeeded(api_,
                 api_.KernelContext_GetResource(context_, kCudaResources, kCudaUsesTf32, &value))) {
    return false;
  }
  bool uses = false;
  std::memcpy(&uses, &value, sizeof uses);
  return uses;
}

}  // namespace myops::ort
