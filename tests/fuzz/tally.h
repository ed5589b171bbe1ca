// Counts the calls of each kind.
#pragma once

#include "calls.h"

namespace fuzz {

void count(const Call& call, bool accepted);
void print_counts_at_exit();

}  // namespace fuzz
