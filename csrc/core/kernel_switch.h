// Turns kernels off by name, for tests and measurements: what an op computes without them, and
// how much slower it is.
#pragma once

namespace myops {

namespace detail {
// Whether the variable has any names; decided when the library is loaded, so that the check
// costs one load where no kernel is off.
extern const bool kernels_disabled __attribute__((visibility("hidden")));
bool enabled_among_disabled(const char* name);
}  // namespace detail

// False if the environment variable MYOPS_DISABLE_KERNEL, a list of names separated by commas, has
// this name, "op.kernel". Called where a kernel is chosen; each such place has another kernel that
// computes the same (in place of deform_conv2d.bfloat16_product with less rounding), and that is
// never off. Not part of the public interface: names come and go with the kernels.
__attribute__((always_inline)) inline bool kernel_enabled(const char* name) {
  return __builtin_expect(!detail::kernels_disabled, 1) || detail::enabled_among_disabled(name);
}

}  // namespace myops
