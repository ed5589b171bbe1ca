// Launches the CUDA kernel of my_add.
#define MYOPS_ISA on_cuda
#include "../loop_nest.h"
#include "entry.h"
#include "kernels.h"
#include "myops/cuda.h"

MYOPS_CUDA_FILE(myops_add_source, "my_add/cuda/kernels.h")

namespace myops::my_add {
namespace {

// Whether the tensors are contiguous memory that can be read in units of 16 bytes.
bool are_packs(const AddArguments& arguments) {
  const auto fits = [](const void* data, int64_t step) {
    return step == 0 || (step == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0);
  };
  return arguments.axes == 1 && fits(arguments.a, arguments.a_step[0]) &&
         fits(arguments.b, arguments.b_step[0]) && fits(arguments.c, 1);
}

}  // namespace

void compute_cuda(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1), &c = context.output(0);
  if (c.elements() == 0) return;
  const on_cuda::Axes axes = on_cuda::loop_nest(a, b, c);
  if (axes.size() > AddArguments::kMostAxes) {
    fail(context.op_name(), "c", str("rank ", c.rank()), "at most 64 axes that cannot be merged");
  }
  AddArguments arguments{a.data, b.data, c.data, static_cast<int32_t>(axes.size()), {}, {}, {}};
  for (size_t i = 0; i < axes.size(); ++i) {
    arguments.length[i] = axes[i].length;
    arguments.a_step[i] = axes[i].a;
    arguments.b_step[i] = axes[i].b;
  }
  const bool packs = are_packs(arguments);
  if (context.reports()) {
    context.report(packs ? "cuda_packs" : "cuda", {}, str(axes.size(), " axes after merging"));
  }
  cuda::Gpu gpu(context, {myops_add_source}, c.dtype);
  const int64_t each = packs ? 16 / static_cast<int64_t>(dtype_size(c.dtype)) : 1;
  gpu.launch(packs ? "my_add_packs" : "my_add", (c.elements() + each - 1) / each, arguments);
}

}  // namespace myops::my_add
