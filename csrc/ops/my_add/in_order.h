// A copy of an operand in the order of the result, made once for a call whose result repeats it:
// where the operand lies in another order, each repetition would have to be put in order.
#pragma once

#include "rows.h"

namespace myops::my_add::MYOPS_ISA {

template <class T>
class InOrder {
 public:
  // Copies the operand with the steps `step` and sets them to those of the copy, if that pays.
  InOrder(const KernelContext& context, Axes& axes, int64_t Axis::* step, const T*& data) {
    const int64_t own = elements(axes, step);
    if (own == 0 || !kernel_enabled("my_add.in_order")) return;
    memory_.emplace(context.scratch(static_cast<size_t>(own) * sizeof(T)));
    T* const copy = memory_->template as<T>();
    // Axes along which it is not repeated. `c` is the step in the copy.
    Axes held;
    for (const Axis& axis : axes) {
      if (axis.*step != 0) held.push_back({axis.length, axis.*step, 0, 0});
    }
    int64_t run = 1;
    for (size_t i = held.size(); i-- > 0; run *= held[i].length) held[i].c = run;
    size_t next = 0;
    for (Axis& axis : axes) {
      if (axis.*step != 0) axis.*step = held[next++].c;
    }
    const Axis inner = held.back();
    Place<T> at(held, data, data, copy, 0);
    for (int64_t done = 0; done < own; done += inner.length, at.advance(1, inner.length)) {
      for (int64_t i = 0; i < inner.length; ++i) at.c[i] = at.a[i * inner.a];
    }
    data = copy;
    context.report("in_order", step == &Axis::a ? "a" : "b", str(own, " elements"));
  }

 private:
  static constexpr int64_t kRepeats = 8;  // at least
  static constexpr int64_t kMostBytes = 64 * 1024;

  // Those of the operand, or 0 where a copy does not pay.
  static int64_t elements(const Axes& axes, int64_t Axis::* step) {
    if (axes.back().*step == 0 || axes.back().*step == 1) return 0;
    int64_t own = 1, all = 1;
    for (const Axis& axis : axes) {
      all *= axis.length;
      if (axis.*step != 0) own *= axis.length;
    }
    const bool pays = all / own >= kRepeats && own * static_cast<int64_t>(sizeof(T)) <= kMostBytes;
    return pays ? own : 0;
  }

  std::optional<Scratch> memory_;
};

}  // namespace myops::my_add::MYOPS_ISA
