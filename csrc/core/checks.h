// Checks that a call and the description of an op have in common.
#pragma once

#include <string>
#include <vector>

#include "myops/op.h"

namespace myops {

// Refuses a string that is not among the choices, and numbers out of bounds.
void check_attribute(const Op& op, const Attribute& attribute, const AttributeValue& value);

// Refuses a rule as text (lengths.h) that has not one pattern for each input and output of the op,
// or a length in an output that no input has.
void check_rule(const Op& op, const std::string& rule);

// "float16, float32 or float64"
std::string dtype_names(const std::vector<DType>& dtypes);

}  // namespace myops
