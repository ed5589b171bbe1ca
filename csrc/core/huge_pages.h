// Huge pages for large memory: most of the time of a call with a large result can be page faults.
#pragma once

#include <cstddef>

namespace myops {

// Asks the system for huge pages in memory of 4 MiB or more that was not written yet. Only a hint:
// a system without huge pages refuses it, and nothing is lost. MYOPS_HUGE_PAGES=0 disables this;
// throws if the variable is neither 0 nor 1.
void ask_for_huge_pages(void* data, size_t bytes);

}  // namespace myops
