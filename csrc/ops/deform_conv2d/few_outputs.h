// The product of convolve.h for few outputs: vectors run over pixels, because a block of product.h
// would compute columns that do not exist. Samples are transposed in registers. The order of the
// sums, and so each bit of them, is that of multiply().
#pragma once

#include "transpose.h"

namespace myops::deform::MYOPS_ISA {

// With more outputs, or shorter vectors, the blocks of product.h take less time.
template <class A>
inline constexpr int64_t kFewOutputs = MYOPS_VECTOR_BYTES == 64   ? 12
                                       : MYOPS_VECTOR_BYTES == 32 ? 8
                                                                  : 0;

// Vectors of samples in which fewer than half belong to a weight group take as long as whole ones.
template <class A>
bool few_outputs_pay(const ConvShape& conv) {
  return !conv.depthwise() && conv.group_outputs() <= kFewOutputs<A> &&
         (conv.taps == 1 || 2 * conv.group_channels() >= kLanes<A>);
}

// out[o][i] += sum over r of left[i][r] * right[r][o] for o < kCount. Rows of `left` are readable
// up to kLanes elements past their end; whole vectors of `out` are written.
template <int kCount, class F, class A>
MYOPS_NOINLINE void multiply_few_outputs(int64_t pixels, const Runs& depth,
                                         const MatrixView<F>& left, const F* right, A* out,
                                         int64_t out_row) {
  constexpr int64_t L = kLanes<A>;
  using V = Vector<A>;
  using Factor = Lanes<F, L>;
  for (int64_t p = 0; p < pixels; p += L) {
    const F* rows[L];
    for (int64_t i = 0; i < L; ++i) rows[i] = left.data + std::min(p + i, pixels - 1) * left.row;
    V sums[kCount];
    for (int o = 0; o < kCount; ++o) sums[o] = load(out + o * out_row + p);
    const F* factors = right;
    for (int64_t run = 0; run < depth.count; ++run) {
      for (int64_t r = 0; r < depth.length; r += L, factors += L * kPanel<A>) {
        const F* const* const from = rows;
        const int64_t at = run * depth.step + r, count = std::min(L, depth.length - r);
        V samples[L];
#pragma GCC unroll 16
        for (int64_t i = 0; i < L; ++i) samples[i] = (V)load_as<Factor>(from[i] + at);
        transpose_groups<L, A>(samples);
#pragma GCC unroll 16
        for (int64_t i = 0; i < L; ++i) {
          if (i == count) break;
          for (int o = 0; o < kCount; ++o) {
            const Factor factor = factors[i * kPanel<A> + o] - Factor{};
            sums[o] = add_product((Factor)samples[i], factor, sums[o]);
          }
        }
      }
      factors += (depth.length % L == 0 ? 0 : depth.length % L - L) * kPanel<A>;
    }
    for (int o = 0; o < kCount; ++o) store(out + o * out_row + p, sums[o]);
  }
}

// The same for `outputs` <= kCount.
template <int kCount, class... Arguments>
void multiply_few(int64_t outputs, const Arguments&... arguments) {
  if constexpr (kCount > 0) {
    if (outputs < kCount) return multiply_few<kCount - 1>(outputs, arguments...);
    multiply_few_outputs<kCount>(arguments...);
  }
}

}  // namespace myops::deform::MYOPS_ISA
