// The parts of check_description.
#pragma once

#include <set>
#include <string>

#include "myops/op.h"

namespace myops {

inline constexpr const char* kIdentifier = "letters, digits and \"_\", and no digit first";

bool is_identifier(const std::string& name);

// Whether Python or TorchScript reserves the word: callers write the names of ops, inputs and
// attributes in Python, and TorchScript in its schemas.
bool is_reserved(const std::string& name);

// Each refuses a name that others cannot write, a name that is reserved, a text that is no UTF-8,
// and a name that was seen before.
void check_name(const Op& op, const char* what, const std::string& name);
void check_free(const Op& op, const std::string& name);
void check_text(const Op& op, const std::string& name, const std::string& text);
void check_once(const Op& op, const char* what, const std::string& name,
                std::set<std::string>& seen);

// Type parameters, inputs and outputs, and the names of attributes among them.
void check_types(const Op& op);
void check_arguments(const Op& op);

}  // namespace myops
