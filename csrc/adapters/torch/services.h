// What torch provides to a kernel: memory for results, and threads.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "myops/context.h"

namespace myops::torch_adapter {

// An uninitialised CPU tensor; the caller owns it. Large tensors use huge pages if the system
// allows: the first write to each page of 4 KiB is a page fault, and these faults take longer than
// a kernel's computation. MYOPS_HUGE_PAGES=0 disables this.
AtenTensorHandle new_tensor(DType dtype, const Shape& shape, const Shape& strides);

void* data_of(AtenTensorHandle tensor);

// As Runtime::run.
void run_tasks(int64_t count, Runtime::Task task, void* argument);

}  // namespace myops::torch_adapter
