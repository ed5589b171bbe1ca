// Calls with tensors on another device than the CPU: on CUDA, the op's kernel for it, if it has
// one.
#pragma once

#include <array>

#include "stack.h"

namespace myops::torch_adapter {

// torch's dispatch keys of the devices whose calls come here, with or without a kernel. Others are
// refused by torch itself.
inline constexpr std::array<const char*, 6> kOtherDevices = {"CUDA", "XPU",  "MPS",
                                                             "HPU",  "MTIA", "PrivateUse1"};

// Whether the first tensor is on another device. Tensors whose numbers are read before the kernel
// runs do not count.
bool is_elsewhere(const Op& op, const std::vector<Argument>& inputs);

// As call() in library.cpp, for these tensors.
void call_elsewhere(const Op& op, Arguments& arguments, StableIValue* stack);

}  // namespace myops::torch_adapter
