// Launches the CUDA kernels of resize and its gradient: the passes of a call, in the CPU's order.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../../../core/kernel_switch.h"
#include "../spec/geometry.h"
#include "entry.h"
#include "myops/cuda.h"
#include "passes.h"

MYOPS_CUDA_FILE(myops_resize_coordinates, "resize/cuda/coordinates.h")
MYOPS_CUDA_FILE(myops_resize_tables, "resize/cuda/tables.h")
MYOPS_CUDA_FILE(myops_resize_make_tables, "resize/cuda/make_tables.h")
MYOPS_CUDA_FILE(myops_resize_sums, "resize/cuda/sums.h")
MYOPS_CUDA_FILE(myops_resize_passes, "resize/cuda/passes.h")
MYOPS_CUDA_FILE(myops_resize_copy, "resize/cuda/copy.h")
MYOPS_CUDA_FILE(myops_resize_two_taps, "resize/cuda/two_taps.h")
MYOPS_CUDA_FILE(myops_resize_four_taps, "resize/cuda/four_taps.h")
MYOPS_CUDA_FILE(myops_resize_any_taps, "resize/cuda/any_taps.h")
MYOPS_CUDA_FILE(myops_resize_one_or_more, "resize/cuda/one_or_more_taps.h")
MYOPS_CUDA_FILE(myops_resize_two_or_more, "resize/cuda/two_or_more_taps.h")
MYOPS_CUDA_FILE(myops_resize_four_or_more, "resize/cuda/four_or_more_taps.h")
MYOPS_CUDA_FILE(myops_resize_wide, "resize/cuda/wide.h")

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

// The kernels of passes.h that a call uses.
struct Kernels {
  const cuda::File* source;
  const char* name;
  bool any_count;  // of taps: a loop, which takes twice as long as a fixed number
};

class Resampling {
 public:
  Resampling(const KernelContext& context, const Request& request, bool backward)
      : context_(context),
        settings_(request.settings),
        axes_(resolve(request).axes),
        dtype_(context.output(0).dtype),
        sum_size_(dtype_ == DType::Float64 ? sizeof(double) : sizeof(float)),
        order_(memory_order(axes_.size(), context.input(0).channels_last())),
        backward_(backward),
        copies_(!backward && request.settings.mode == Mode::Nearest),
        passes_(order_of_passes()),
        wide_(is_wide()),
        gpu_(gpu_with(wide_ ? myops_resize_wide : myops_resize_make_tables)) {}

  void run() {
    const Tensor &source = context_.input(0), &target = context_.output(0);
    if (passes_.empty())
      return gpu_.copy(source.data, byte_count(target.shape, dtype_), target.data);
    Shape lengths = source.shape;
    const void* from = source.data;
    std::vector<std::pair<size_t, TapTable>> tables;
    for (size_t done = 0; done < passes_.size();) {
      const size_t count = is_plane(lengths, done) ? 2 : 1;
      // Axis 0 of a pass is the inner one in memory.
      size_t axes[2] = {passes_[done], passes_[done + count - 1]};
      PassArguments pass{};
      if (count == 2 && position(axes[0]) < position(axes[1])) {
        std::swap(axes[0], axes[1]);
        pass.outer_first = 1;
      }
      pass.x = from;
      pass.x_is_sum = done > 0 && !copies_;
      done += count;
      const bool last = done == passes_.size();
      pass.y_is_sum = !last && !copies_;
      pass.outside = settings_.extrapolation_value;
      const int64_t inner = inner_of(lengths, axes[0]);
      for (size_t i = 0; i < count; ++i) {
        pass.from[i] = lengths[axes[i]];
        pass.to[i] = lengths[axes[i]] = target.shape[axes[i]];
      }
      make_tables(axes, count, pass.taps);
      for (size_t i = 0; i < count; ++i) tables.push_back({axes[i], pass.taps[i]});
      const size_t y_size = pass.y_is_sum != 0 ? sum_size_ : dtype_size(dtype_);
      pass.y = last ? target.data : gpu_.scratch<char>(element_count(lengths), y_size);
      launch(pass, axes, count, inner, element_count(lengths));
      from = pass.y;
    }
    if (settings_.coordinates != Coordinates::TfCropAndResize || copies_ || backward_) return;
    cuda::Gpu painter = gpu_with(myops_resize_wide);
    for (const auto& [axis, taps] : tables) {
      PassArguments pass{};
      pass.y = target.data;
      pass.to[0] = lengths[axis];
      pass.inner.by = inner_of(lengths, axis);
      pass.taps[0] = taps;
      pass.outside = settings_.extrapolation_value;
      painter.launch(wide_ ? "paint_outside_wide" : "paint_outside", element_count(lengths), pass);
    }
  }

 private:
  cuda::Gpu gpu_with(const cuda::File& main) const {
    return cuda::Gpu(
        context_,
        {main,
         {myops_resize_coordinates, myops_resize_tables, myops_resize_sums, myops_resize_passes}},
        dtype_);
  }

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

  // Whether 32 bits are too few for a place in a tensor or in a table.
  bool is_wide() const {
    constexpr int64_t kMost = (int64_t{1} << 31) - 1024;  // so that no sum of indices overflows
    Shape lengths = context_.input(0).shape;
    bool wide = element_count(lengths) > kMost || !kernel_enabled("resize.cuda_narrow");
    for (const size_t axis : passes_) {
      lengths[axis] = context_.output(0).shape[axis];
      const ResizeAxis described = describe(settings_, axes_[axis]);
      wide = wide || element_count(lengths) > kMost || described.input > kMost ||
             resize_kernels::most_taps(described) > kMost / described.output;
    }
    return wide;
  }

  size_t position(size_t axis) const {
    return static_cast<size_t>(std::find(order_.begin(), order_.end(), axis) - order_.begin());
  }

  // The elements behind an axis in memory.
  int64_t inner_of(const Shape& lengths, size_t axis) const {
    int64_t inner = 1;
    for (size_t i = order_.size(); order_[--i] != axis;) inner *= lengths[order_[i]];
    return inner;
  }

  // Whether this pass and the next one are made together: their axes are neighbours, and the sums
  // that are made again are few.
  bool is_plane(const Shape& lengths, size_t pass) const {
    if (wide_ || pass + 1 == passes_.size() || !kernel_enabled("resize.cuda_plane")) return false;
    const size_t one = passes_[pass], other = passes_[pass + 1];
    const size_t inside = position(one) > position(other) ? one : other;
    const size_t outside = inside == one ? other : one;
    if (inner_of(lengths, outside) != inner_of(lengths, inside) * lengths[inside]) return false;
    // Products of an element of the result, so that no more are made than storing sums is worth.
    const double most = kernels(&passes_[pass], 2).any_count ? 4 : 16;
    return terms(one) * terms(other) <= most;
  }

  // About how many elements are summed for one of the result.
  double terms(size_t axis) const {
    const Axis& of = axes_[axis];
    const double taps = resize_kernels::usual_taps(describe(settings_, of));
    if (!backward_) return taps;
    return std::max(taps * static_cast<double>(of.output) / static_cast<double>(of.input), 1.0);
  }

  // A part of a block of scratch memory, of which `used` bytes are taken. Null without memory.
  static void* part(char* memory, int64_t& used, int64_t count, size_t size) {
    void* place = memory != nullptr ? memory + used : nullptr;
    used += (count * static_cast<int64_t>(size) + 15) / 16 * 16;
    return place;
  }

  // For each of these axes the table that its pass reads.
  void make_tables(const size_t* axes, size_t count, TapTable* tables) {
    TapArguments arguments{};
    arguments.axes = static_cast<int32_t>(count);
    arguments.one_each = copies_;
    int64_t outputs = 0, inputs = 0;
    const size_t index = wide_ ? sizeof(int64_t) : sizeof(int32_t);
    for (size_t i = 0; i < count; ++i) {
      TapArguments::Axis& of = arguments.of[i];
      of.axis = describe(settings_, axes_[axes[i]]);
      const int64_t output = of.axis.output, input = of.axis.input;
      of.taps.most = resize_kernels::most_taps(of.axis);
      outputs += output, inputs += input;
      const int64_t places = output * of.taps.most;
      // First only the bytes are counted.
      char* memory = nullptr;
      for (int64_t used = 0;; used = 0) {
        of.taps.index = part(memory, used, places, index);
        of.taps.weight = part(memory, used, places, sum_size_);
        of.taps.span = part(memory, used, output, 4 * index);
        if (backward_) {
          of.low = part(memory, used, output, index);
          of.high = part(memory, used, output, index);
          of.filled = static_cast<int64_t*>(part(memory, used, 1, sizeof(int64_t)));
          of.lists.index = part(memory, used, places, index);
          of.lists.weight = part(memory, used, places, sum_size_);
          of.lists.span = part(memory, used, input, 4 * index);
        }
        if (memory != nullptr) break;
        memory = gpu_.scratch<char>(used);
      }
      tables[i] = backward_ ? of.lists : of.taps;
    }
    gpu_.launch(wide_ ? "make_taps_wide" : "make_taps", outputs, arguments);
    if (backward_) gpu_.launch(wide_ ? "list_readers_wide" : "list_readers", inputs, arguments);
  }

  Kernels kernels(const size_t* axes, size_t count) const {
    if (copies_ && wide_) return {&myops_resize_wide, "copy_nearest", false};
    if (copies_) return {&myops_resize_copy, "copy_nearest", false};
    const bool any = wide_ || backward_ || settings_.antialias || settings_.mode == Mode::Area;
    if (!any && settings_.mode == Mode::Linear) return {&myops_resize_two_taps, "two_taps", false};
    if (!any && settings_.mode == Mode::Cubic) return {&myops_resize_four_taps, "four_taps", false};
    if (wide_) return {&myops_resize_wide, "any_taps", true};
    double most = 0;
    for (size_t i = 0; i < count; ++i) most = std::max(most, terms(axes[i]));
    if (most <= 1) return {&myops_resize_one_or_more, "one_or_more_taps", true};
    if (most <= 2) return {&myops_resize_two_or_more, "two_or_more_taps", true};
    if (most <= 4) return {&myops_resize_four_or_more, "four_or_more_taps", true};
    return {&myops_resize_any_taps, "any_taps", true};
  }

  void launch(PassArguments& pass, const size_t* axes, size_t count, int64_t inner,
              int64_t elements) {
    pass.length = pass.to[0] * inner;
    const auto in_lanes = [&](const void* data, bool is_sum) {
      const size_t size = kResizeLanes * (is_sum ? sum_size_ : dtype_size(dtype_));
      return reinterpret_cast<uintptr_t>(data) % std::min<size_t>(size, 16) == 0;
    };
    const bool lanes = !wide_ && inner % kResizeLanes == 0 &&
                       in_lanes(pass.x, pass.x_is_sum != 0) && in_lanes(pass.y, pass.y_is_sum != 0);
    const Kernels found = kernels(axes, count);
    const int64_t each = lanes ? kResizeLanes : kResizeEach;
    pass.inner = divisor_of(inner);
    pass.threads = divisor_of((pass.length + each - 1) / each);
    pass.outputs = divisor_of(std::max<int64_t>(pass.to[1], 1));
    const std::string name = str(found.name, wide_ ? "_wide" : "", count == 2 ? "_plane" : "",
                                 wide_        ? ""
                                 : inner == 1 ? "_one"
                                 : lanes      ? "_lanes"
                                              : "");
    if (context_.reports()) {
      std::string which = str("axis ", axes[0]), change = str(pass.from[0], " -> ", pass.to[0]);
      if (count == 2) {
        which = str("axes ", axes[1], ", ", axes[0]);
        change = str(pass.from[1], "x", pass.from[0], " -> ", pass.to[1], "x", pass.to[0]);
      }
      context_.report(str("cuda_", name), which, change);
    }
    const int64_t rows = elements / pass.length;
    gpu_with(*found.source).launch(name.c_str(), rows * pass.threads.by, pass);
  }

  const KernelContext& context_;
  const Settings settings_;
  const Axes axes_;
  const DType dtype_;
  const size_t sum_size_;
  const std::vector<size_t> order_;  // of the axes in memory
  const bool backward_, copies_;
  const std::vector<size_t> passes_;
  const bool wide_;
  cuda::Gpu gpu_;
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
