// What calls did, for MYOPS_VERBOSE=1 and for myops.explain().
//
// One line of JSON for each call, made where the call ends: the op, its inputs and outputs, what
// the kernel reported (KernelContext::report), and what the core itself knows: pieces, threads,
// memory and times.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "myops/op.h"

namespace myops {

namespace detail {
inline constexpr int kUndecided = -1;
// How many recorders and settings ask for reports, or kUndecided.
extern std::atomic<int> reporters __attribute__((visibility("hidden")));
int decide_reporters();
}  // namespace detail

// Whether anyone wants to know what calls do. The environment variable MYOPS_VERBOSE is read at the
// first call; values other than 0 and 1 are refused.
inline bool calls_are_reported() {
  const int reporters = detail::reporters.load(std::memory_order_relaxed);
  if (__builtin_expect(reporters == 0, 1)) return false;
  return reporters > 0 || detail::decide_reporters() > 0;
}

// Records the calls of this library from now on, until the next recorded_calls().
void record_calls();
// Stops recording and returns what was recorded, a line of JSON for each call.
std::string recorded_calls();

// Called where an instruction set is chosen: the call of this thread runs code for that set.
void note_instruction_set();

class Report {
 public:
  Report(const Op& op, const Attributes& attributes, Runtime& runtime);
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // The checks are done, the outputs allocated.
  void starts_kernel(const TensorPointers& inputs, const Tensors& outputs);
  // The kernel has made outputs itself; these are all.
  void made_outputs(const Tensors& outputs);
  void add(std::string_view kernel, std::string_view axis, std::string_view reason);
  // Before a parallel_for(), and by the thread of each of its pieces where there are several.
  void starts_pieces(int64_t pieces);
  void runs_piece();
  // Prints or records the line. `error`: why the call was refused, or null.
  void finish(const Tensors& given, const char* error = nullptr);

 private:
  using Clock = std::chrono::steady_clock;

  struct Step {
    std::string kernel, axis, reason;
    int64_t pieces, memory;
    double ms;
  };

  void describe_outputs(const Tensors& outputs);
  void end_pass(Clock::time_point now);
  int64_t memory();  // the most scratch memory at a time since the last call of this
  std::string line(const Tensors& given, const char* error, Clock::time_point end);

  const Op& op_;
  const Attributes& attributes_;
  Runtime& runtime_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // guards all members below: threads of the runtime report pieces
  std::string inputs_, outputs_;
  std::vector<Step> steps_;
  // Steps that were reported one after another, and then ran together.
  std::vector<size_t> pass_;
  bool pass_ran_ = false;
  Clock::time_point pass_start_ = start_;
  std::vector<std::thread::id> threads_;
  int64_t pieces_ = 0, memory_ = 0;
  int64_t left_ = -1;  // memory budget at the start of the kernel; -1: it did not start
};

}  // namespace myops
