// Launches the CUDA kernel of my_add.
#define MYOPS_ISA on_cuda
#include "myops/cuda.h"

#include "cuda/kernels.h"
#include "cuda_kernels.h"
#include "loop_nest.h"

MYOPS_CUDA_FILE(myops_add_source, "my_add/cuda/kernels.h")

namespace myops::my_add {

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
  context.report("cuda", str(axes.size(), " axes after merging"));
  cuda::Gpu(context, {myops_add_source}, c.dtype).launch("my_add", c.elements(), arguments);
}

}  // namespace myops::my_add
