// Launches the kernel of soft_clip. The tensors are on the device: nothing here may read them.
#include "cuda/soft_clip.h"

#include "myops/cuda.h"

MYOPS_CUDA_FILE(soft_clip_source, "cuda/soft_clip.h")

void soft_clip_on_cuda(myops::KernelContext& context) {
  const myops::Tensor &x = context.input(0), &y = context.output(0);
  const double limit = context.attributes().real("limit");
  myops::cuda::Gpu gpu(context, {soft_clip_source}, x.dtype);
  gpu.launch("soft_clip", y.elements(), myops::SoftClipArguments{x.data, y.data, limit});
}
