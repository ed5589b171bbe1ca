// unique: the different numbers of a list, and on demand where they stood and how often.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "myops/op.h"

namespace {
using namespace myops;

// NaNs are equal, and above everything else.
template <class T>
bool below(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

template <class T>
void compute(KernelContext& context) {
  const Tensor& x = context.input(0);
  const T* from = x.as<T>();
  const int64_t count = x.elements();
  auto order = context.scratch_array<int64_t>(count);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return below(from[a], from[b]); });
  const auto begins = [&](int64_t i) {
    return i == 0 || below(from[order[i - 1]], from[order[i]]);
  };
  int64_t different = 0;
  for (int64_t i = 0; i < count; ++i) different += begins(i) ? 1 : 0;
  context.set_length("K", different);
  T* values = context.output(0).as<T>();
  const Tensor &inverse = context.output(1), &counts = context.output(2);
  int64_t place = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (begins(i)) {
      values[++place] = from[order[i]];
      if (counts.present) counts.as<int64_t>()[place] = 0;
    }
    if (inverse.present) inverse.as<int64_t>()[order[i]] = place;
    if (counts.present) ++counts.as<int64_t>()[place];
  }
}

}  // namespace

MYOPS_OP(unique) {
  return Op("unique")
      .onnx("UniqueNumbers", 1)
      .doc("The different numbers of a list, the smallest first.")
      .type("T", {DType::Float32, DType::Float64, DType::Int64})
      .type("I", {DType::Int64})
      .input({"x", "T", "[N]."})
      .output({"values", "T", "[K]."})
      .output(Output{"inverse", "I", "[N]: for each number of x its place in values."}.only_if(
          "return_inverse"))
      .output(Output{"counts", "I", "[K]: how often each stood in x."}.only_if("return_counts"))
      .attribute({"return_inverse", false, "Whether inverse is computed."})
      .attribute({"return_counts", false, "Whether counts is computed."})
      .shape("N -> K<=N, N, K<=N")
      .kernel(MYOPS_TYPED(compute, float, double, int64_t));
}
