// The text of the headers that CUDA sources include. NVRTC has no C++ standard library; the parts
// of it that headers of myops use are defined below.
#include "compiler.h"
#include "myops/device.h"         // included for the build, which compiles this file again when one
#include "myops/narrow_floats.h"  // of them changes
#include "myops/random.h"
#include "myops/tensor_cores.h"

MYOPS_CUDA_FILE(myops_device_h, "myops/device.h")
MYOPS_CUDA_FILE(myops_narrow_floats_h, "myops/narrow_floats.h")
MYOPS_CUDA_FILE(myops_random_h, "myops/random.h")
MYOPS_CUDA_FILE(myops_tensor_cores_h, "myops/tensor_cores.h")

namespace myops::cuda {
namespace {

template <size_t size>
File text(const char* name, const char (&content)[size]) {
  return {name, content, content + size - 1};
}

constexpr char kMath[] =
    "#pragma once\n"
    "namespace std {\n"
    "using ::ceil; using ::cos; using ::exp; using ::floor; using ::fma; using ::ldexp;\n"
    "using ::log; using ::nearbyint; using ::sqrt;\n"
    "inline float floor(float x) { return floorf(x); }\n"
    "inline float ceil(float x) { return ceilf(x); }\n"
    "inline float fma(float x, float y, float z) { return fmaf(x, y, z); }\n"
    "inline float ldexp(float x, int n) { return ldexpf(x, n); }\n"
    "inline float sqrt(float x) { return sqrtf(x); }\n"
    "}\n";
constexpr char kArray[] =
    "#pragma once\n"
    "namespace std {\n"
    "template <class T, size_t count> struct array {\n"
    "  T items[count];\n"
    "  T& operator[](size_t i) { return items[i]; }\n"
    "  const T& operator[](size_t i) const { return items[i]; }\n"
    "};\n"
    "}\n";
constexpr char kIntegers[] = "#pragma once\n";  // device.h declares them
constexpr char kMemory[] =
    "#pragma once\n"
    "namespace std { using ::memcpy; }\n";

}  // namespace

std::vector<File> standard_files() {
  return {myops_device_h,
          myops_narrow_floats_h,
          myops_random_h,
          myops_tensor_cores_h,
          text("array", kArray),
          text("cmath", kMath),
          text("cstdint", kIntegers),
          text("cstring", kMemory)};
}

}  // namespace myops::cuda
