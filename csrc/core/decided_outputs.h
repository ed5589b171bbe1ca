// Outputs with lengths that the kernel decides while it runs.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "myops/op.h"
#include "shape_cache.h"
#include "unmade_outputs.h"

namespace myops {

// One axis of an output that the shape rule left to the kernel.
struct DecidedAxis {
  size_t output, axis;
  DecidedLength length;
};

// Of a call; the shapes in `outputs` have -1 on these axes.
std::shared_ptr<const DecidedAxes> decided_axes(const ShapeContext& context);

// Makes such outputs when the kernel sets their lengths, and refuses lengths that differ from what
// the shape rule promised: shape inference, compilers and other outputs rely on it.
class DecidedOutputs {
 public:
  DecidedOutputs(const Op& op, const OutputDescriptions& described, const DecidedAxes& axes,
                 Runtime& runtime, std::vector<Layout> layouts, Tensors& outputs)
      : op_(op),
        described_(described),
        axes_(axes),
        runtime_(runtime),
        layouts_(std::move(layouts)),
        outputs_(outputs),
        made_(described.size(), false) {}

  bool has(size_t output) const;
  // What the kernel gets for each such output before it has set the length.
  void reserve();
  const Tensor& allocate(size_t output, const Shape& shape);
  void set_length(const std::string& name, int64_t length);
  // Called when the kernel begins or ends a parallel_for, in which no length can be set.
  void count_pieces(int change) { in_pieces_ += change; }
  // Refuses a kernel that set no length for an output, or that wrote before it set one.
  void check_complete() const;

 private:
  void check(size_t output, const Shape& shape);
  void check_thread(const std::string& what, const char* call) const;
  void check_unwritten(size_t output) const;
  void check_length(const DecidedAxis& axis, int64_t length);

  const Op& op_;
  const OutputDescriptions& described_;
  const DecidedAxes& axes_;
  Runtime& runtime_;
  const std::vector<Layout> layouts_;
  Tensors& outputs_;
  std::vector<bool> made_;
  std::vector<std::pair<std::string, int64_t>> named_lengths_;  // that are set
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<int> in_pieces_{0};
  UnmadeOutputs unmade_;
  std::vector<int> unmade_number_;  // of an output; -1: none
};

// Takes the bytes of an output from the budget of the call.
void take_output(const Op& op, size_t output, DType dtype, const Shape& shape, Budget& budget);

}  // namespace myops
