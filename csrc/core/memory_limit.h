// The memory limit of the container that this process runs in.
#pragma once

#include <cstdint>
#include <string>

namespace myops {

// The smallest limit among the memory cgroups of this process, versions 1 and 2, up to the root;
// the largest int64 if there is none. `root` is a prefix of /proc and /sys, empty except in tests.
int64_t container_memory(const std::string& root);

}  // namespace myops
