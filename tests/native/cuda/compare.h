// Comparisons of kernels for CUDA, on the stand-in for a device, with the kernels for the CPU.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "on_device.h"

namespace fake_cuda {

struct Compared {
  int calls = 0, equal = 0;
  std::map<std::string, double> most;  // difference of a dtype, in ulp
};

// Which GPU: 3 is a small one without tensor cores for all types; and whether TF32 is accepted.
struct Place {
  int device = 0;
  bool tf32 = false;
};

// How results must agree with the CPU: in all bits, as numbers (0 equals -0), or approximately.
enum class Wanted { Close, Bits, Numbers };

// An emulator of another CPU takes ten times as long. There, an eighth of the random calls shows
// that the host's side of a call works; what a kernel computes is tested where nothing is emulated.
#ifdef MYOPS_EMULATED
constexpr int kFraction = 8;
#else
constexpr int kFraction = 1;
#endif

// The largest difference, in ulp of the largest number of the result, or of 1 if that is larger;
// NaN must be NaN in both.
double difference(const Tensor& expected, const Tensor& found);

// Results must be as expected, and have equal bits in every order of the threads.
void compare(const Case& made, Wanted wanted, Compared& compared, Place place = {});

// Random calls, `count` of them, at each of the places.
void compare_all(const char* what, int count, Wanted wanted,
                 const std::function<std::unique_ptr<Case>(Random&)>& make,
                 const std::vector<Place>& places = {Place()});

}  // namespace fake_cuda
