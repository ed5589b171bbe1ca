// All tables of a call: new ones, or those of an earlier call.
#pragma once

#include <memory>
#include <optional>

#include "../kernels/byte_shuffle.h"
#include "../kernels/last_axis.h"
#include "../kernels/nearest_scatter.h"
#include "../kernels/whole_plan.h"
#include "layout.h"
#include "long_axis.h"
#include "plan.h"
#include "sparse_plan.h"
#include "table_cache.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
struct Tables {
  Settings settings{};
  SourceLayout layout = SourceLayout::RowMajor;
  std::vector<KeptIndices> kept;  // of each axis of a strided source, see strided_source.h
  bool swapped = false;           // see must_swap()
  std::optional<LongAxis<Wide>> long_axis;  // in place of all that follows
  Plan<Wide> plan;
  std::optional<Plan<Wide>> places;         // of its result, see sparse_plan.h
  bool scatters = false;                    // a gradient of nearest, see nearest_scatter.h
  WholePlan whole = WholePlan::None;        // what computes sums, or else by levels:
  LastAxisTables<Wide> last;                // for the last one
  std::optional<ByteShuffle> byte_shuffle;  // the same, for copies of one or two bytes
  std::vector<TableSize> sizes;             // the memory that a call's budget is charged for them

  int64_t bytes() const {
    int64_t sum = 0;
    for (const TableSize& part : sizes) sum += part.bytes;
    return sum;
  }
};

// Whether a row is so long that the table of "gather", "nearest_gather" or "lanes" is too large to
// be cached, and so few are made at once that computing them without it takes less time.
// (Measured.)
template <class Wide>
bool outweighs_rows(const Plan<Wide>& plan, int64_t few_rows = 8) {
  constexpr int64_t kLong = 1 << 15;
  return plan.levels.size() == 1 && plan.rows() <= few_rows &&
         std::max(plan.levels.back().taps.input, plan.levels.back().taps.output) >= kLong;
}

// Whether the last level reads rows in the type of the arithmetic, as it does where others are
// combined first.
template <class T, class Wide>
bool reads_wide(const Plan<Wide>& plan) {
  const std::vector<Level<Wide>>& levels = plan.levels;
  return std::is_same_v<T, Wide> || (levels.size() > 1 && levels[levels.size() - 2].first);
}

// The table of "gather" or, if elements are copied, of "nearest_gather", if the kernel is fast.
template <class T, class Wide>
void add_gather(TableBudget& table_budget, Tables<Wide>& tables, bool copies) {
  if constexpr (kPermutes<Wide>) {
    const Level<Wide>& last = tables.plan.levels.back();
    take_gather(table_budget, last.taps, last.in_volume);
    tables.last.gather.emplace(last.taps, last.in_volume);
    const GatherTable<Wide>& table = tables.last.gather->table();
    const bool fast = copies                       ? table.copies_fast()
                      : reads_wide<T>(tables.plan) ? table.is_fast()
                                                   : table.is_made_by_loops();
    if (!fast) tables.last.gather.reset();
  }
}

// The tables of the last level for copies.
template <class T, class Wide>
void add_copy_tables(TableBudget& table_budget, Tables<Wide>& tables) {
  const Level<Wide>& last = tables.plan.levels.back();
  const TapTable<Wide>& taps = last.taps;
  if (std::is_same_v<T, Wide> && kPermutes<Wide> && !taps.has_empty &&
      GatherTable<Wide>::supports(taps, last.in_volume) && last.in_volume < kLanes<Wide> &&
      !outweighs_rows(tables.plan, 32) && kernel_enabled("resize.nearest_gather")) {
    add_gather<T>(table_budget, tables, true);
  }
  const int64_t run = last.in_volume * static_cast<int64_t>(sizeof(T));
  if (sizeof(T) < sizeof(float) && ByteShuffle::supports(taps, run, tables.plan.rows()) &&
      kernel_enabled("resize.nearest_byte_shuffle")) {
    table_budget.take_tables(taps.input, taps.output, ByteShuffle::bytes(taps.output * run));
    tables.byte_shuffle.emplace(taps, run);
    if (!tables.byte_shuffle->fits()) tables.byte_shuffle.reset();
  }
}

// Those for sums.
template <class T, class Wide>
void add_sum_tables(TableBudget& table_budget, Tables<Wide>& tables) {
  using Last = LastAxisTables<Wide>;
  const Level<Wide>& last = tables.plan.levels.back();
  const TapTable<Wide>& taps = last.taps;
  const int64_t channels = last.in_volume;
  if (Pixels<Wide>::supports(taps, channels, !reads_wide<T>(tables.plan)) &&
      kernel_enabled("resize.pixels")) {
    tables.last.pixels.emplace(taps, channels);
  } else if (Last::prefers_gather(taps, channels) && !outweighs_rows(tables.plan) &&
             kernel_enabled("resize.gather")) {
    add_gather<T>(table_budget, tables, false);
  }
  if (!tables.last.pixels && !tables.last.gather && !tables.plan.has_one_row() &&
      Last::within_rows(channels) && LaneTable<Wide>::supports(taps, channels) &&
      !Last::reads_runs(taps, channels, !reads_wide<T>(tables.plan)) &&
      !outweighs_rows(tables.plan) && kernel_enabled("resize.lanes")) {
    table_budget.take_tables(taps.input, taps.output, LaneTable<Wide>::bytes(taps));
    tables.last.lanes.emplace(taps, channels);
  }
  if (tables.plan.levels.size() > 1) {
    table_budget.take_tables(taps.input, taps.output, Last::bytes_of_parts(taps, channels));
    tables.last.find_parts(taps, channels);
  }
}

// Tables refer to each other, so they are constructed in their final place.
template <class T, bool kBackward>
auto make_tables(const KernelContext& context, const Request& request, SourceLayout layout)
    -> std::shared_ptr<Tables<Accumulate<T>>> {
  using Wide = Accumulate<T>;
  const Settings& settings = request.settings;
  const Geometry geometry = resolve(request);
  const auto tables = std::make_shared<Tables<Wide>>();
  TableBudget table_budget(context);
  tables->settings = settings;
  tables->layout = layout;
  const bool channels_last = is_channels_last(layout), strided = is_strided(layout);
  if (strided) tables->kept.resize(geometry.axes.size());
  tables->swapped = must_swap(settings, geometry.axes, channels_last);
  const bool pixels = channels_last && !tables->swapped;
  tables->long_axis = LongAxis<Wide>::of(settings, geometry.axes,
                                         memory_order(geometry.axes.size(), pixels), kBackward);
  if (tables->long_axis) {
    constexpr int64_t kThreads = 64;  // that make tables at the same time, as a bound
    const LongAxis<Wide>& axis = *tables->long_axis;
    table_budget.take_tables(axis.input(), axis.output(),
                             std::min(axis.parts(), kThreads) * axis.bytes());
    tables->sizes = table_budget.sizes();
    return tables;
  }
  const Plan<Wide>& plan = tables->plan = make_plan<Wide>(
      table_budget, settings, geometry.axes, pixels, kBackward, strided ? &tables->kept : nullptr);
  if (!plan.levels.empty()) {
    const bool nearest = settings.mode == Mode::Nearest;
    if (nearest && !kBackward) {
      add_copy_tables<T>(table_budget, *tables);
    } else if (nearest && NearestScatter<T, Wide>::supports(plan) &&
               kernel_enabled("resize.nearest_scatter")) {
      tables->scatters = true;
    } else {
      tables->whole = whole_plan<T>(plan);
      const bool others = tables->whole == WholePlan::None || tables->whole == WholePlan::Planes;
      if (kBackward && others && is_sparse(plan, settings, tables->whole == WholePlan::Planes)) {
        tables->places = split_places(table_budget, tables->plan);
        tables->whole = whole_plan<T>(plan);
      }
      if (tables->whole == WholePlan::None) add_sum_tables<T>(table_budget, *tables);
      if (tables->whole == WholePlan::FewPixels && FewPixels<T, Wide>::uses_pairs(plan)) {
        const Level<Wide>& last = plan.levels.back();
        table_budget.take_tables(last.taps.input, last.taps.output,
                                 PixelPairs<Wide>::bytes(last.taps, last.in_volume));
        tables->last.pairs.emplace(last.taps, last.in_volume);
      }
    }
  }
  tables->sizes = table_budget.sizes();
  return tables;
}

// The tables of the previous call if it was equal, of another recent call, or new ones.
template <class T, bool kBackward>
auto tables_of(const KernelContext& context) -> std::shared_ptr<const Tables<Accumulate<T>>> {
  using CallTables = std::shared_ptr<const Tables<Accumulate<T>>>;
  constexpr int64_t kMost =
      128 << 10;  // bytes that each caller (a node of a model, for example) may cache
  static const char maker = 0;
  // Charges the budget for cached tables too: whether a call is refused must not depend on earlier
  // calls.
  const auto reserve_again = [&](const CallTables& tables) {
    const int64_t all = tables->bytes();
    if (all < kSmallTables) {
      take(context, {0, 0, all});
    } else {
      for (const TableSize& part : tables->sizes) take(context, part);
    }
    return tables;
  };
  const SourceLayout layout = layout_of(context.input(0));
  const bool caches = kernel_enabled("resize.table_cache");
  const CallTables last = context.call_cache<Tables<Accumulate<T>>>();
  if (caches && last && last->layout == layout) return reserve_again(last);

  const Request request(context, kBackward ? 1 : 0);
  const Key key = key_of(request, layout, &maker);
  CallTables tables = std::static_pointer_cast<const Tables<Accumulate<T>>>(find_tables(key));
  if (caches && tables) {
    reserve_again(tables);
  } else {
    tables = make_tables<T, kBackward>(context, request, layout);
    store_tables(key, tables, tables->bytes());
  }
  if (tables->bytes() <= kMost) context.set_call_cache(tables);
  return tables;
}

}  // namespace myops::resize::MYOPS_ISA
