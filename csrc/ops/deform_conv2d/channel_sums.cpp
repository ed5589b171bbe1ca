// channel_sums: the sum over all but the channels, the gradient of a bias. The order of torch's own
// sum depends on the number of threads and on the layout; this one (channel_sums.h) does not.
#include "kernels.h"
#include "myops/op.h"

namespace myops::deform {
namespace {

void compute(KernelContext& context) { MYOPS_CHOOSE(channel_sums)(context); }

}  // namespace

MYOPS_OP(channel_sums) {
  return Op("channel_sums")
      .doc(
          "The sum over all axes but the second, in an order that depends on the shape only: the "
          "gradient of deform_conv2d's bias.")
      .type("T", {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64})
      .input(Input{"X", "T", "[N, C, H, W]"}.access(Access::Strided))
      .output({"Y", "T", "[C]"})
      .shape("N C H W -> C")
      .kernel(compute);
}

}  // namespace myops::deform
