// Checks used both for calls and for descriptions of ops.
#pragma once

#include <string>
#include <vector>

#include "myops/op.h"

namespace myops {

// Refuses a string that is not among the choices, and numbers out of bounds.
void check_attribute(const Op& op, const Attribute& attribute, const AttributeValue& value);

// Refuses a textual shape rule (lengths.h) that does not have one pattern for each input and output
// of the op, or that uses a length in an output that no input has.
void check_rule(const Op& op, const std::string& rule);

// Whether a call computes the output (see Output::only_if).
bool is_wanted(const Op& op, const Output& output, const ShapeContext& context);

// Whether the numbers of a tensor are read before the kernel runs: those that decide a shape, and
// the key of a random op. Such a tensor is on the CPU in calls on every device.
inline bool is_read_early(const Op& op, size_t input) {
  return op.declared(input).has_values || (op.is_random && input + 1 == op.inputs.size());
}

// "float16, float32 or float64"
std::string dtype_names(const std::vector<DType>& dtypes);

}  // namespace myops
