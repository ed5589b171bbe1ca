// What torch provides to a kernel: memory for results, and threads.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "myops/context.h"

namespace myops::torch_adapter {

// Without contents, on the CPU; the caller owns it. Large ones ask the system for huge pages: the
// first write to each page of 4 KiB is a fault, and these take longer than a kernel spends on the
// contents. MYOPS_HUGE_PAGES=0 leaves it be.
AtenTensorHandle new_tensor(DType dtype, const Shape& shape, const Shape& strides);

void* data_of(AtenTensorHandle tensor);

// As Runtime::run.
void run_tasks(int64_t count, Runtime::Task task, void* argument);

}  // namespace myops::torch_adapter
