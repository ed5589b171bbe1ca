// Calls that were wrong once, and some that are rarely drawn. Each run of the fuzzer begins with
// them.
#pragma once

#include "calls.h"

namespace fuzz {

std::vector<Call> findings();

}  // namespace fuzz
