// All tables of a call: its own, or those of an earlier one.
#pragma once

#include <memory>
#include <optional>

#include "kept.h"
#include "layout.h"
#include "plan.h"
#include "shuffles.h"

namespace myops::resize::MYOPS_ISA {

template <class Wide>
struct Tables {
  bool swapped = false;  // see must_swap()
  Plan<Wide> plan;
  std::optional<Gather<Wide>> gather;  // of the last level, where there is one and it is asked
  std::optional<Shuffles> shuffles;    // the same, for nearest and elements of a byte or two
  std::vector<Take> takes;             // what they take of a call's memory
};

// Tables refer to each other, so they are made where they stay.
template <class T, bool kBackward>
auto tables_of(const KernelContext& context, const Request& request)
    -> std::shared_ptr<const Tables<Accumulate<T>>> {
  using Wide = Accumulate<T>;
  static const char maker = 0;
  const bool channels_last = context.input(0).channels_last();
  const Key key(request, channels_last, &maker);
  if (const auto kept = find_tables(key)) {
    const auto tables = std::static_pointer_cast<const Tables<Wide>>(kept);
    // Whether a call may take so much must not depend on the calls before.
    for (const Take& part : tables->takes) take(context, part);
    return tables;
  }
  const Settings& settings = request.settings;
  const Geometry geometry = resolve(request);
  const auto tables = std::make_shared<Tables<Wide>>();
  Ledger ledger(context);
  tables->swapped = must_swap(settings, geometry.axes, channels_last);
  tables->plan = make_plan<Wide>(ledger, settings, geometry.axes, channels_last && !tables->swapped,
                                 kBackward);
  if (!tables->plan.levels.empty()) {
    const Level<Wide>& last = tables->plan.levels.back();
    const bool sums = kBackward || settings.mode != Mode::Nearest;
    const bool moves = std::is_same_v<T, Wide> && kPermutes<Wide> && !last.taps.has_empty &&
                       Gather<Wide>::takes(last.in_volume);
    if (sums || moves) {
      take_gather(ledger, last.taps, last.in_volume);
      tables->gather.emplace(last.taps, last.in_volume);
    }
    const int64_t run = last.in_volume * static_cast<int64_t>(sizeof(T));
    if (!sums && sizeof(T) < sizeof(float) &&
        Shuffles::takes(last.taps, run, tables->plan.rows())) {
      ledger.take_tables(last.taps.input, last.taps.output,
                         Shuffles::bytes(last.taps.output * run));
      tables->shuffles.emplace(last.taps, run);
      if (!tables->shuffles->fits()) tables->shuffles.reset();
    }
  }
  tables->takes = ledger.takes();
  int64_t bytes = 0;
  for (const Take& part : tables->takes) bytes += part.bytes;
  keep_tables(key, tables, bytes);
  return tables;
}

}  // namespace myops::resize::MYOPS_ISA
