// A call on a CUDA device that does not come from torch's dispatcher: adapters/fast_call/ makes it
// through plain C functions of the torch library, where all modules of the driver are loaded.
#pragma once

#include "../../core/shape_cache.h"

namespace myops {

struct CudaCall {
  const Op& op;  // what myops_cuda_op() returned
  int32_t device;
  const Tensors& inputs;  // on the device, except for those that are read early
  const Attributes& attributes;
  ShapeCache* last;  // of calls on this device only, or null
  // Takes the handles of the results, which the caller then owns; null for one that is left out.
  SmallVector<void*, 6>& made;
  // The caller's tensor for the result on this device, or null.
  const Tensor* out = nullptr;
  // Called before the first write to `out`, with `caller`. False: the call ends there.
  bool (*count_write)(void* caller) = nullptr;
  void* caller = nullptr;
};

enum class CudaOutcome : uint8_t {
  Made,
  NotCounted,  // count_write() has returned false
  Refused,     // with an error
};

}  // namespace myops
