// Turns kernels off by name, for tests and measurements: what a kernel computes without them, and
// what is lost then.
#pragma once

namespace myops {

// False if the environment variable MYOPS_DISABLE_KERNEL, a list of names separated by commas, has
// this name, "op.kernel". Asked where a kernel is chosen; each such place has another kernel that
// computes the same, and that is never off. Not part of the public interface: names come and go
// with the kernels.
bool kernel_enabled(const char* name);

}  // namespace myops
