// The memory of a call's tables, taken from its budget before they are made: on one long axis they
// are many times the result. Vectors that grow are counted with the old and the new memory.
#pragma once

#include "gather.h"
#include "make_taps.h"

namespace myops::resize::MYOPS_ISA {

inline void take_tables(const KernelContext& context, int64_t input, int64_t output, double bytes) {
  constexpr double kMost = 9e18;      // below 2^63
  constexpr double kSmall = 1 << 16;  // where the words would take longer than the tables
  context.take(bytes < kSmall ? std::string("tables")
                              : str("tables for an axis from length ", input, " to ", output),
               static_cast<size_t>(std::min(bytes, kMost)));
}

// Before make_taps().
template <class Weight>
void take_taps(const KernelContext& context, const Settings& settings, const Axis& axis) {
  const double outputs = static_cast<double>(axis.output);
  const double taps = outputs * static_cast<double>(most_taps(settings, axis));
  take_tables(context, axis.input, axis.output,
              sizeof(int64_t) * (outputs + 1) + (sizeof(int64_t) + sizeof(Weight)) * taps);
}

// Before transpose(), which counts in three more tables.
template <class Weight>
void take_transposed(const KernelContext& context, const Taps<Weight>& taps) {
  const double all = static_cast<double>(taps.index.size());
  take_tables(context, taps.output, taps.input,
              4 * sizeof(int64_t) * (static_cast<double>(taps.input) + 1) +
                  (sizeof(int64_t) + sizeof(Weight)) * all);
}

// Before a Gather is made of the same arguments.
template <class Wide>
void take_gather(const KernelContext& context, const Taps<Wide>& taps, int64_t step) {
  if (!Gather<Wide>::takes(step)) return;
  constexpr double kBlockBytes = 48;
  constexpr double kLargest = 3;  // times its elements: what a vector holds while it grows
  const bool few = taps.width == 1 || taps.width == 2 || taps.width == 4;
  const double elements = static_cast<double>(taps.output * step + kLanes<Wide>);
  // Chains have a weight for each place, taken or not, and say which are.
  const double weights = few ? elements * static_cast<double>(taps.width)
                             : 2 * elements * static_cast<double>(taps.widest + 3);
  const double indices = elements * (few ? static_cast<double>(taps.width) : 1);
  take_tables(context, taps.input, taps.output,
              elements * kBlockBytes / kLanes<Wide> +
                  kLargest * (indices * sizeof(int32_t) + weights * sizeof(Wide)));
}

}  // namespace myops::resize::MYOPS_ISA
