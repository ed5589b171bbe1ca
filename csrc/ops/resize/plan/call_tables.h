// All tables of a call: new ones, or those of an earlier call.
#pragma once

#include <memory>
#include <optional>

#include "../kernels/byte_shuffle.h"
#include "../kernels/last_axis.h"
#include "../kernels/nearest_scatter.h"
#include "layout.h"
#include "plan.h"
#include "table_cache.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
struct Tables {
  Settings settings{};
  bool channels_last = false;  // the input
  bool swapped = false;        // see must_swap()
  Plan<Wide> plan;
  LastAxisTables<Wide> last;  // of the last level
  std::optional<ByteShuffle>
      byte_shuffle;              // the same, for nearest with elements of one or two bytes
  bool scatters = false;         // a gradient of nearest, see nearest_scatter.h
  std::vector<TableSize> sizes;  // the memory that a call's budget is charged for them

  int64_t bytes() const {
    int64_t sum = 0;
    for (const TableSize& part : sizes) sum += part.bytes;
    return sum;
  }
};

// Tables refer to each other, so they are constructed in their final place.
template <class T, bool kBackward>
auto make_tables(const KernelContext& context, const Request& request, bool channels_last)
    -> std::shared_ptr<Tables<Accumulate<T>>> {
  using Wide = Accumulate<T>;
  const Settings& settings = request.settings;
  const Geometry geometry = resolve(request);
  const auto tables = std::make_shared<Tables<Wide>>();
  TableBudget table_budget(context);
  tables->settings = settings;
  tables->channels_last = channels_last;
  tables->swapped = must_swap(settings, geometry.axes, channels_last);
  tables->plan = make_plan<Wide>(table_budget, settings, geometry.axes,
                                 channels_last && !tables->swapped, kBackward);
  if (!tables->plan.levels.empty()) {
    const Level<Wide>& last = tables->plan.levels.back();
    const bool sums = kBackward || settings.mode != Mode::Nearest;
    const bool moves = !sums && std::is_same_v<T, Wide> && kPermutes<Wide> &&
                       !last.taps.has_empty &&
                       GatherTable<Wide>::supports(last.taps, last.in_volume) &&
                       last.in_volume < kLanes<Wide> && kernel_enabled("resize.nearest_gather");
    if (sums && Pixels<Wide>::supports(last.taps, last.in_volume) &&
        kernel_enabled("resize.pixels")) {
      tables->last.pixels.emplace(last.taps, last.in_volume);
    }
    const bool pixels = tables->last.pixels.has_value();
    if constexpr (kPermutes<Wide>) {
      using Last = LastAxisTables<Wide>;
      if (moves || (sums && !pixels && Last::prefers_gather(last.taps, last.in_volume) &&
                    kernel_enabled("resize.gather"))) {
        take_gather(table_budget, last.taps, last.in_volume);
        tables->last.gather.emplace(last.taps, last.in_volume);
        const GatherTable<Wide>& table = tables->last.gather->table();
        const bool fast = moves                     ? table.copies_fast()
                          : std::is_same_v<T, Wide> ? table.is_fast()
                                                    : table.is_made_by_loops();
        if (!fast) tables->last.gather.reset();
      }
    }
    if (sums && !pixels && !tables->last.gather && !tables->plan.has_one_row() &&
        LastAxisTables<Wide>::within_rows(last.in_volume) &&
        LaneTable<Wide>::supports(last.taps, last.in_volume) && kernel_enabled("resize.lanes")) {
      table_budget.take_tables(last.taps.input, last.taps.output,
                               LaneTable<Wide>::bytes(last.taps));
      tables->last.lanes.emplace(last.taps, last.in_volume);
    }
    if (sums && tables->plan.levels.size() > 1) {
      table_budget.take_tables(last.taps.input, last.taps.output,
                               LastAxisTables<Wide>::bytes_of_parts(last.taps, last.in_volume));
      tables->last.find_parts(last.taps, last.in_volume);
    }
    tables->scatters = kBackward && settings.mode == Mode::Nearest &&
                       NearestScatter<T, Wide>::supports(tables->plan) &&
                       kernel_enabled("resize.nearest_scatter");
    const int64_t run = last.in_volume * static_cast<int64_t>(sizeof(T));
    if (!sums && sizeof(T) < sizeof(float) &&
        ByteShuffle::supports(last.taps, run, tables->plan.rows()) &&
        kernel_enabled("resize.nearest_byte_shuffle")) {
      table_budget.take_tables(last.taps.input, last.taps.output,
                               ByteShuffle::bytes(last.taps.output * run));
      tables->byte_shuffle.emplace(last.taps, run);
      if (!tables->byte_shuffle->fits()) tables->byte_shuffle.reset();
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
  const bool channels_last = context.input(0).channels_last();
  const bool caches = kernel_enabled("resize.table_cache");
  const CallTables last = context.call_cache<Tables<Accumulate<T>>>();
  if (caches && last && last->channels_last == channels_last) return reserve_again(last);

  const Request request(context, kBackward ? 1 : 0);
  const Key key(request, channels_last, &maker);
  CallTables tables = std::static_pointer_cast<const Tables<Accumulate<T>>>(find_tables(key));
  if (caches && tables) {
    reserve_again(tables);
  } else {
    tables = make_tables<T, kBackward>(context, request, channels_last);
    store_tables(key, tables, tables->bytes());
  }
  if (tables->bytes() <= kMost) context.set_call_cache(tables);
  return tables;
}

}  // namespace myops::resize::MYOPS_ISA
