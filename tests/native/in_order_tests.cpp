// Parts that are made by several threads are added one at a time, in the order of their numbers;
// after an exception all threads stop, and none waits for a part that never comes.
#define MYOPS_ISA in_order_tests

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../../csrc/ops/deform_conv2d/in_order.h"
#include "checking.h"

namespace {

using myops::deform::MYOPS_ISA::InOrder;

constexpr int64_t kCount = 300;

// Makes parts in several threads, until each has met an exception or all are made. Part `fails` is
// not made, and part `refused` is not added; -1: none.
struct Run {
  std::vector<int64_t> added;
  std::atomic<int> made{0}, adding{0}, exceptions{0};
  bool together = false;  // two parts were added at a time

  Run(int threads, int64_t fails, int64_t refused) {
    InOrder<std::unique_ptr<int64_t>> parts;
    std::atomic<int64_t> tasks{0};
    const auto make = [&](int64_t number) {
      // Some take long, so that others are finished before them.
      if (number % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      if (number == fails) throw std::runtime_error("make");
      ++made;
      return std::make_unique<int64_t>(number);
    };
    const auto add = [&](std::unique_ptr<int64_t> part) {
      together = together || ++adding != 1;
      if (*part == refused) throw std::runtime_error("add");
      added.push_back(*part);
      --adding;
    };
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&] {
        while (tasks++ < kCount) {
          try {
            parts.make_next(make, add);
          } catch (const std::runtime_error&) {
            ++exceptions;
          }
        }
      });
    }
    for (std::thread& thread : all) thread.join();
  }
};

void check(int threads, int64_t fails, int64_t refused) {
  const Run run(threads, fails, refused);
  const std::string text = std::to_string(threads) + " threads, " + std::to_string(fails) + ", " +
                           std::to_string(refused) + ": ";
  const int64_t stop = fails >= 0 ? fails : refused;
  for (size_t i = 0; i < run.added.size(); ++i) {
    expect(run.added[i] == static_cast<int64_t>(i), text + "added in another order");
  }
  expect(!run.together, text + "two parts at a time");
  if (stop < 0) {
    expect(run.added.size() == kCount && run.exceptions == 0, text + "parts are missing");
    return;
  }
  expect(run.exceptions == 1, text + "not one exception");
  expect(static_cast<int64_t>(run.added.size()) <= stop, text + "added behind the failure");
  expect(run.made < kCount, text + "went on after the failure");
}

}  // namespace

int main() {
  for (const int threads : {1, 2, 3, 16}) {
    check(threads, -1, -1);
    for (const int64_t stop : {0, 1, 100}) {
      check(threads, stop, -1);
      check(threads, -1, stop);
    }
  }
  return finish("parts in order");
}
