// How much memory there is.
#pragma once

#include <cstdint>
#include <string>

namespace myops {

// The least limit of the memory cgroups that this process is in, of versions 1 and 2, up to the
// root; the largest number where there is none. `root` stands before /proc and /sys; empty but in
// tests.
int64_t container_memory(const std::string& root);

}  // namespace myops
