// Sums of many parts that are made in parallel: they are added in a fixed order, so that the bits
// of a sum do not depend on the number of threads, and without a pause of all threads after some.
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "myops/context.h"

namespace myops::deform::MYOPS_ISA {

// Numbered parts. Whichever thread finishes the part whose turn it is adds it, and those after it
// that are finished by then; the others go on with further parts meanwhile.
template <class Part>
class InOrder {
 public:
  // Makes the next part. Parts begin in the order of their numbers, in whichever order a runtime
  // calls its tasks: a thread waits only for parts that others have begun.
  template <class Make, class Add>
  void make_next(const Make& make, const Add& add) {
    try {
      std::unique_lock<std::mutex> lock(mutex_);
      if (failed_) return;
      const int64_t number = begun_++;
      lock.unlock();
      Part part = make(number);
      lock.lock();
      advanced_.wait(lock, [&] { return failed_ || number < turn_ + kAhead; });
      if (failed_) return;
      place(number) = std::move(part);
      // (While a part is added, its place is empty, and no other thread adds.)
      for (; place(turn_) && !failed_; ++turn_, advanced_.notify_all()) {
        Part next = *std::exchange(place(turn_), std::nullopt);
        lock.unlock();
        add(std::move(next));
        lock.lock();
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      failed_ = true;
      advanced_.notify_all();
      throw;
    }
  }

 private:
  static constexpr int64_t kAhead = 8;  // parts that wait for their turn, at most

  std::optional<Part>& place(int64_t number) {
    return waiting_[static_cast<size_t>(number % kAhead)];
  }

  std::mutex mutex_;  // of all members
  std::condition_variable advanced_;
  std::array<std::optional<Part>, kAhead> waiting_;
  int64_t begun_ = 0, turn_ = 0;
  bool failed_ = false;
};

// Calls make(number) for `count` numbers in parallel, and add(part) with what it has returned, in
// the order of the numbers, for one at a time.
template <class Make, class Add>
void make_and_add(const KernelContext& context, int64_t count, const Make& make, const Add& add) {
  InOrder<decltype(make(int64_t{0}))> parts;
  context.parallel_for(count, 1, [&](int64_t, int64_t) { parts.make_next(make, add); });
}

}  // namespace myops::deform::MYOPS_ISA
