#include "kernel_switch.h"

#include <cstdlib>
#include <string>

namespace myops {
namespace {

// ",a,b,", or empty.
std::string disabled_names() {
  const char* given = std::getenv("MYOPS_DISABLE_KERNEL");
  return given == nullptr || *given == '\0' ? std::string() : "," + std::string(given) + ",";
}

}  // namespace

const bool detail::kernels_disabled = !disabled_names().empty();

bool detail::enabled_among_disabled(const char* name) {
  static const std::string disabled = disabled_names();
  return disabled.find("," + std::string(name) + ",") == std::string::npos;
}

}  // namespace myops
