// Both kernels: the forward pass, and the gradient, which is the same passes with transposed tables
// of taps. The gradient of an input element is a sum over the outputs to which it contributed, so
// no locks are needed and the order is fixed.
#pragma once

#include "../kernels/long_rows.h"
#include "../kernels/nearest.h"
#include "../kernels/nearest_columns.h"
#include "../kernels/resample.h"
#include "../plan/call_tables.h"
#include "entry.h"

namespace myops::resize::MYOPS_ISA {

// Writes the extrapolation value wherever any axis is outside the input. This is a separate step,
// because weighted sums of the value would not be exact.
template <class T, class Wide>
void paint_outside(const Plan<Wide>& plan, size_t depth, int64_t begin, int64_t end, T outside,
                   T* target) {
  const Level<Wide>& level = plan.levels[depth];
  for (int64_t o = begin; o < end; ++o, target += level.out_volume) {
    if (level.taps.count(o) == 0) {
      std::fill(target, target + level.out_volume, outside);
    } else if (depth + 1 < plan.levels.size()) {
      const Level<Wide>& next = plan.levels[depth + 1];
      for (int64_t block = 0; block < level.blocks; ++block) {
        paint_outside(plan, depth + 1, 0, next.taps.output, outside,
                      target + block * next.taps.output * next.out_volume);
      }
    }
  }
}

// A plan with at least one level, or a long axis.
template <bool kBackward, class T, class Wide>
void run_plan(const KernelContext& context, const Tables<Wide>& tables, const Source<T>& source,
              T* target) {
  const Plan<Wide>& plan = tables.plan;
  const Settings& settings = tables.settings;
  if (tables.long_axis) {
    return run_long_rows<kBackward>(context, *tables.long_axis, source.memory, target);
  }
  if constexpr (kBackward) {
    const auto scatter = [&](const Plan<Wide>& places, const Source<T>& elements) {
      if (context.reports()) report(context, places, [](size_t) { return "nearest_scatter"; });
      const NearestScatter<T, Wide> kernel(places);
      for_each_run(context, places, elements, target,
                   [&](auto... slabs) { kernel.fill(0, slabs...); });
    };
    if (tables.scatters) {
      if (copied_columns(context, plan, source.memory, T(), target)) return;
      return scatter(plan, source);
    }
    if (!tables.places) return resample(context, plan, tables.whole, tables.last, source, target);
    const auto elements = context.scratch_array<T>(plan.bytes(sizeof(T)) / sizeof(T));
    resample(context, plan, tables.whole, tables.last, source, elements.data());
    scatter(*tables.places, {elements.data()});
  } else {
    const T outside = to_element<T>(static_cast<Wide>(settings.extrapolation_value));
    if (settings.mode == Mode::Nearest) {
      if (copied_columns(context, plan, source.memory, outside, target)) return;
      const Nearest<T, Wide> nearest(tables, outside);
      if (context.reports()) {
        report(context, plan, [&](size_t depth) {
          if (depth + 1 < plan.levels.size()) return "nearest_slabs";
          return tables.byte_shuffle  ? "nearest_byte_shuffle"
                 : tables.last.gather ? "nearest_gather"
                                      : "nearest_copy";
        });
      }
      return for_each_run(context, plan, source, target,
                          [&](auto... slabs) { nearest.fill(0, slabs...); });
    }
    resample(context, plan, tables.whole, tables.last, source, target);
    if (settings.coordinates != Coordinates::TfCropAndResize) return;
    // (The source is not read.)
    for_each_run(context, plan, Source<T>{target}, target,
                 [&](int64_t begin, int64_t end, const T*, T* slabs) {
                   paint_outside(plan, 0, begin, end, outside, slabs);
                 });
  }
}

// The plan of a call that resizes nothing.
template <class T>
void copy_all(const KernelContext& context, int64_t count, const T* source, T* target) {
  context.parallel_for(count, 1 << 18, [&](int64_t begin, int64_t end) {
    std::copy(source + begin, source + end, target + begin);
  });
}

// Elements with gaps between them are copied first, or by each piece of the call: where kernels
// read slabs of a first level that nothing else reads.
template <class T, class Wide>
void run_strided(const KernelContext& context, const Tables<Wide>& tables, T* target) {
  const Tensor& input = context.input(0);
  const bool channels_last = is_channels_last(tables.layout) && !tables.swapped;
  const StridedSource<T> source(input, tables.kept,
                                memory_order(input.shape.size(), channels_last));
  const Plan<Wide>& plan = tables.plan;
  const bool in_pieces = plan.levels.size() > 1 && source.in_order() &&
                         (tables.whole == WholePlan::None || tables.whole == WholePlan::OneColumn);
  context.report("strided_copy", "X",
                 str(source.elements(), " of ", input.elements(), " elements are copied ",
                     in_pieces ? "by the pieces that read them" : "side by side"));
  if (plan.levels.empty() && !tables.long_axis) return copy_all(context, source, target);
  if (in_pieces) return run_plan<false>(context, tables, {nullptr, &source}, target);
  const ScratchArray<T> copy = context.scratch_array<T>(source.elements());
  copy_all(context, source, copy.data());
  run_plan<false>(context, tables, {copy.data()}, target);
}

template <bool kBackward, class... Types>
void run(const KernelContext& context) {
  const Tensor& output = context.output(0);
  if (output.elements() == 0) return;
  dispatch<Types...>(output.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto tables = tables_of<T, kBackward>(context);
    if constexpr (!kBackward) {
      if (is_strided(tables->layout)) {
        return to_memory_order<T>(context, tables->swapped, output,
                                  [&](T* target) { run_strided<T>(context, *tables, target); });
      }
    }
    in_memory_order<T>(context, tables->swapped, context.input(0), output,
                       [&](const T* source, T* target) {
                         if (tables->plan.levels.empty() && !tables->long_axis) {
                           return copy_all(context, output.elements(), source, target);
                         }
                         run_plan<kBackward>(context, *tables, {source}, target);
                       });
  });
}

void forward(KernelContext& context) {
  run<false, Half, BFloat16, float, double, uint8_t>(context);
}

void backward(KernelContext& context) { run<true, Half, BFloat16, float, double>(context); }

}  // namespace myops::resize::MYOPS_ISA
