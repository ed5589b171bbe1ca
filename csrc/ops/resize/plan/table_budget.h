// Charges the memory of a call's tables to its budget before they are made: for one long axis they
// can be many times the result. Growing vectors are counted with the old and the new memory.
#pragma once

#include "../kernels/gather_table.h"
#include "make_tap_table.h"

namespace myops::resize::MYOPS_ISA {

struct TableSize {
  int64_t input, output;  // of the axis
  int64_t bytes;
};

// Below it, formatting the message would take longer than making the tables.
inline constexpr int64_t kSmallTables = 1 << 16;

inline void take(const KernelContext& context, const TableSize& tables) {
  context.take(tables.bytes < kSmallTables
                   ? std::string("tables")
                   : str("tables for an axis from length ", tables.input, " to ", tables.output),
               static_cast<size_t>(tables.bytes));
}

// Charges the budget and records the sizes: later users of the tables charge their own budget.
class TableBudget {
 public:
  explicit TableBudget(const KernelContext& context) : context_(context) {}

  void take_tables(int64_t input, int64_t output, double bytes) {
    constexpr double kMost = 9e18;  // below 2^63
    sizes_.push_back({input, output, static_cast<int64_t>(std::min(bytes, kMost))});
    take(context_, sizes_.back());
  }
  const std::vector<TableSize>& sizes() const { return sizes_; }

 private:
  const KernelContext& context_;
  std::vector<TableSize> sizes_;
};

// Called before make_tap_table().
template <class Weight>
void take_taps(TableBudget& table_budget, const Settings& settings, const Axis& axis) {
  const double outputs = static_cast<double>(axis.output);
  const double taps = outputs * static_cast<double>(most_taps(settings, axis));
  table_budget.take_tables(
      axis.input, axis.output,
      sizeof(int64_t) * (outputs + 1) + (sizeof(int64_t) + sizeof(Weight)) * taps);
}

// Called before transposed_map().
template <class Weight>
void take_transposed(TableBudget& table_budget, const TapTable<Weight>& taps) {
  const double all = static_cast<double>(taps.index.size());
  const double length = static_cast<double>(taps.input);
  table_budget.take_tables(taps.output, taps.input,
                           sizeof(int64_t) * (length + std::min(length, all) + 3) +
                               (sizeof(int64_t) + sizeof(Weight)) * all);
}

// Called before a Gather is made of the same arguments.
template <class Wide>
void take_gather(TableBudget& table_budget, const TapTable<Wide>& taps, int64_t step) {
  constexpr double kBlockBytes = sizeof(typename GatherTable<Wide>::Block);
  constexpr double kLargest =
      3;  // old and new memory of a growing vector, in units of its elements
  const double elements = static_cast<double>(taps.output * step + kLanes<Wide>);
  const double places = elements * static_cast<double>(taps.width);
  table_budget.take_tables(
      taps.input, taps.output,
      elements * kBlockBytes / kLanes<Wide> + kLargest * places * (sizeof(int32_t) + sizeof(Wide)));
}

}  // namespace myops::resize::MYOPS_ISA
