// Launches the CUDA kernels of resize and its gradient: the passes of a call, in the CPU's order.
#include <algorithm>
#include <utility>
#include <vector>

#include "../spec/geometry.h"
#include "entry.h"
#include "kernels.h"
#include "myops/cuda.h"

MYOPS_CUDA_FILE(myops_resize_source, "resize/cuda/kernels.h")
MYOPS_CUDA_FILE(myops_resize_coordinates, "resize/cuda/coordinates.h")

namespace myops::resize {
namespace {

ResizeAxis describe(const Settings& settings, const Axis& axis) {
  return {axis.input,
          axis.output,
          axis.scale,
          axis.roi_start,
          axis.roi_end,
          settings.cubic_a,
          static_cast<int32_t>(settings.mode),
          static_cast<int32_t>(settings.coordinates),
          static_cast<int32_t>(settings.rounding),
          settings.antialias,
          settings.exclude_outside,
          settings.torch_arithmetic,
          axis.small_picture};
}

// The place of each axis in memory, outermost first.
std::vector<size_t> memory_order(size_t rank, bool channels_last) {
  std::vector<size_t> order;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (!channels_last || axis != 1) order.push_back(axis);
  }
  if (channels_last) order.push_back(1);
  return order;
}

class Resampling {
 public:
  Resampling(const KernelContext& context, const Request& request, bool backward)
      : context_(context),
        settings_(request.settings),
        axes_(resolve(request).axes),
        dtype_(context.output(0).dtype),
        gpu_(context, {myops_resize_source, {myops_resize_coordinates}}, dtype_),
        order_(memory_order(axes_.size(), context.input(0).channels_last())),
        backward_(backward) {}

  void run() {
    const Tensor &source = context_.input(0), &target = context_.output(0);
    const std::vector<size_t> passes = order_of_passes();
    if (passes.empty())
      return gpu_.copy(source.data, byte_count(target.shape, dtype_), target.data);
    Shape lengths = source.shape;
    const void* from = source.data;
    const bool sums = backward_ || settings_.mode != Mode::Nearest;
    std::vector<PassArguments> done;
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      const size_t axis = passes[pass];
      PassArguments arguments{};
      arguments.x = from;
      arguments.from = lengths[axis];
      arguments.to = target.shape[axis];
      lengths[axis] = arguments.to;
      arguments.inner = inner_of(lengths, axis);
      arguments.x_is_sum = pass > 0 && sums;
      arguments.y_is_sum = pass + 1 < passes.size() && sums;
      arguments.outside = settings_.extrapolation_value;
      const int64_t count = element_count(lengths);
      const size_t size = arguments.y_is_sum != 0 ? sum_size() : dtype_size(dtype_);
      arguments.y = pass + 1 < passes.size() ? static_cast<void*>(gpu_.scratch<char>(count, size))
                                             : target.data;
      arguments.taps = make_taps(axis);
      const char* kernel = backward_ ? "gather_gradient" : sums ? "resample" : "copy_nearest";
      if (context_.reports()) {
        context_.report(str("cuda_", kernel), str("axis ", axis),
                        str(arguments.from, " -> ", arguments.to));
      }
      gpu_.launch(kernel, count, arguments);
      from = arguments.y;
      done.push_back(arguments);
    }
    if (settings_.coordinates != Coordinates::TfCropAndResize || !sums || backward_) return;
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      PassArguments& arguments = done[pass];
      arguments.y = target.data;
      arguments.inner = inner_of(lengths, passes[pass]);
      gpu_.launch("paint_outside", element_count(lengths), arguments);
    }
  }

 private:
  size_t sum_size() const { return dtype_ == DType::Float64 ? sizeof(double) : sizeof(float); }

  // The axes that are resampled before those behind them, then the others, the last one first.
  std::vector<size_t> order_of_passes() const {
    std::vector<size_t> first, others;
    int64_t inner_from = 1, inner_to = 1;
    for (size_t axis = axes_.size(); axis-- > 0;) {
      const int64_t from = backward_ ? axes_[axis].output : axes_[axis].input;
      const int64_t to = backward_ ? axes_[axis].input : axes_[axis].output;
      if (!is_identity(settings_, axes_[axis])) {
        const size_t behind = first.size() + others.size();
        const bool before =
            resamples_first(settings_, backward_, from, to, behind, inner_from, inner_to);
        (before ? first : others).push_back(axis);
      }
      inner_from *= from, inner_to *= to;
    }
    others.insert(others.begin(), first.rbegin(), first.rend());
    return others;
  }

  int64_t inner_of(const Shape& lengths, size_t axis) const {
    int64_t inner = 1;
    for (size_t i = order_.size(); order_[--i] != axis;) inner *= lengths[order_[i]];
    return inner;
  }

  ResizeTaps make_taps(size_t axis) {
    TapArguments arguments{describe(settings_, axes_[axis]), {}};
    const int64_t outputs = arguments.axis.output, inputs = arguments.axis.input;
    ResizeTaps& taps = arguments.taps;
    taps.most = resize_kernels::most_taps(arguments.axis);
    int64_t* numbers = gpu_.scratch<int64_t>(4 * outputs + (backward_ ? 2 * inputs : 0));
    taps.base = numbers;
    taps.count = numbers + outputs;
    taps.low = numbers + 2 * outputs;
    taps.high = numbers + 3 * outputs;
    taps.weight = gpu_.scratch<char>(outputs, taps.most, sum_size());
    gpu_.launch("make_taps", outputs, arguments);
    if (backward_) {
      taps.first = numbers + 4 * outputs;
      taps.last = taps.first + inputs;
      gpu_.launch("find_outputs", inputs, arguments);
    }
    return taps;
  }

  const KernelContext& context_;
  const Settings settings_;
  const Axes axes_;
  const DType dtype_;
  cuda::Gpu gpu_;
  const std::vector<size_t> order_;  // of the axes in memory
  const bool backward_;
};

}  // namespace

void forward_cuda(KernelContext& context) {
  if (context.output(0).elements() == 0) return;
  Resampling(context, Request(context, 0), false).run();
}

void backward_cuda(KernelContext& context) {
  if (context.output(0).elements() == 0) return;
  Resampling(context, Request(context, 1), true).run();
}

}  // namespace myops::resize
