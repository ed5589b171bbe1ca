// Products of matrices on tensor cores, for kernels whose threads share memory
// (MYOPS_BLOCK_KERNEL), on GPUs of compute capability 8.0 or later (cuda::on_tensor_cores).
//
// A warp, 32 neighbouring threads, multiplies matrices of 16 rows and of 8 columns: sums of
// float32, factors of Half, BFloat16, or float32 rounded to TF32. A factor is a table of words of
// 32 bits, 8 of them to a row of the left one, or to a column of the right one: see TensorWord. On
// a CPU, tests run the same text with the product made from what each thread holds.
#pragma once

#include "myops/device.h"

namespace myops {

// Float32 with 10 bits of fraction: to nearest, ties away from zero, as the GPU's cvt.rna.
inline uint32_t to_tf32(float value) {
  const uint32_t bits = detail::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (bits | 0x00400000u) & 0xffffe000u;  // NaN stays NaN
  return (bits + (magnitude < 0x7f800000u ? 0x1000u : 0u)) & 0xffffe000u;
}

namespace detail {
// Two floats as a word of T, the first in the lower half. The GPUs that have tensor cores for T
// have an instruction for it, whose results differ in the bits of a NaN only.
template <class T>
uint32_t rounded_pair(float low, float high, T) {
  return static_cast<uint32_t>(T(low).bits) | static_cast<uint32_t>(T(high).bits) << 16;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
inline uint32_t rounded_pair(float low, float high, Half) {
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
inline uint32_t rounded_pair(float low, float high, BFloat16) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
#endif
}  // namespace detail

// The elements of a word: two of 16 bits, the first in the lower half, or one of TF32.
template <class T>
struct TensorWord {
  static constexpr int kElements = 2;
  // get(i): element i, a float.
  template <class Get>
  static uint32_t of(const Get& get) {
    return detail::rounded_pair(get(0), get(1), T());
  }
  // Element i of a row of words.
  static void put(uint32_t* row, int i, float value) {
#ifdef __CUDACC__
    reinterpret_cast<uint16_t*>(row)[i] =
        static_cast<uint16_t>(detail::rounded_pair(value, 0.0f, T()));
#else
    const int shift = i % 2 * 16;
    row[i / 2] = (row[i / 2] & ~(0xffffu << shift)) | uint32_t{T(value).bits} << shift;
#endif
  }
  static float element(uint32_t word, int i) {
    T value;
    value.bits = static_cast<uint16_t>(word >> 16 * i);
    return static_cast<float>(value);
  }
};
template <>
struct TensorWord<float> {
  static constexpr int kElements = 1;
  template <class Get>
  static uint32_t of(const Get& get) {
    return to_tf32(get(0));
  }
  static void put(uint32_t* row, int i, float value) { row[i] = to_tf32(value); }
  static float element(uint32_t word, int) { return detail::bit_cast<float>(word); }
};

// What a thread holds of `m` left factors of 16 rows and 8 words, of `n` right factors of 8 words
// and 8 columns, and of the m x n sums of 16 rows and 8 columns.
template <int m, int n>
struct WarpFactors {
  uint32_t left[m][4], right[n][2];
};
template <int m, int n>
struct WarpSums {
  float at[m][n][4];
};

// Where these are, for lane 0 to 31 of the warp and element i: row and word of the left factor,
// word and column of the right one, row and column of the sums.
inline int left_row(int lane, int i) { return lane / 4 + i % 2 * 8; }
inline int left_word(int lane, int i) { return lane % 4 + i / 2 * 4; }
inline int right_word(int lane, int i) { return lane % 4 + i * 4; }
inline int right_column(int lane) { return lane / 4; }
inline int sum_row(int lane, int i) { return lane / 4 + i / 2 * 8; }
inline int sum_column(int lane, int i) { return lane % 4 * 2 + i % 2; }

namespace detail {
#ifdef __CUDACC__
// clang-format off
#define MYOPS_TENSOR_PRODUCT(shape, type)                                                       \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 "                  \
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                     \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]),         \
                 "r"(right[1]))
// clang-format on
template <class T>
struct TensorProductOf;
template <>
struct TensorProductOf<float> {
  static void add(const uint32_t* left, const uint32_t* right, float* sums) {
    MYOPS_TENSOR_PRODUCT("m16n8k8", "tf32");
  }
};
template <>
struct TensorProductOf<Half> {
  static void add(const uint32_t* left, const uint32_t* right, float* sums) {
    MYOPS_TENSOR_PRODUCT("m16n8k16", "f16");
  }
};
template <>
struct TensorProductOf<BFloat16> {
  static void add(const uint32_t* left, const uint32_t* right, float* sums) {
    MYOPS_TENSOR_PRODUCT("m16n8k16", "bf16");
  }
};
#undef MYOPS_TENSOR_PRODUCT
#else
// The matrices of a warp, put together from the registers of its threads as the PTX ISA describes
// their fragments (mma.m16n8k16 with 16-bit floats, mma.m16n8k8 with tf32), element by element.
template <class T>
struct WarpMatrices {
  static constexpr bool kNarrow = TensorWord<T>::kElements == 2;
  static constexpr int kDepth = kNarrow ? 16 : 8;

  void take_left(int lane, const uint32_t* a) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < (kNarrow ? 8 : 4); ++i) {
      const bool upper = kNarrow ? i < 2 || (i >= 4 && i < 6) : i == 0 || i == 2;
      const int column =
          kNarrow ? in_group * 2 + (i & 1) + (i < 4 ? 0 : 8) : in_group + (i < 2 ? 0 : 4);
      const uint32_t word = kNarrow ? a[i / 2] : a[i];
      left[upper ? group : group + 8][column] = TensorWord<T>::element(word, i & 1);
    }
  }
  void take_right(int lane, const uint32_t* b) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < (kNarrow ? 4 : 2); ++i) {
      const int row =
          kNarrow ? in_group * 2 + (i & 1) + (i < 2 ? 0 : 8) : in_group + (i == 0 ? 0 : 4);
      right[row][group] = TensorWord<T>::element(kNarrow ? b[i / 2] : b[i], i & 1);
    }
  }
  void take_sums(int lane, const float* c) {
    for (int i = 0; i < 4; ++i) sum_of(lane, i) = c[i];
  }
  void give_sums(int lane, float* c) {
    for (int i = 0; i < 4; ++i) c[i] = sum_of(lane, i);
  }
  void multiply() {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < kDepth; ++k) {
        const float factor = left[row][k];
        for (int column = 0; column < 8; ++column) {
          sums[row][column] = std::fma(factor, right[k][column], sums[row][column]);
        }
      }
    }
  }
  float& sum_of(int lane, int i) {
    const int group = lane >> 2, in_group = lane % 4;
    return sums[i < 2 ? group : group + 8][in_group * 2 + (i & 1)];
  }

  float left[16][kDepth], right[kDepth][8], sums[16][8];
};
#endif
}  // namespace detail

// For each warp of the block: adds the products of its factors to its sums, `steps` times. Calls
// load(thread, step), which returns the WarpFactors of a thread and may read shared memory. The
// threads do not wait for each other afterwards, as with Block::begin.
//
// `sums` is a PerThread of WarpSums<m, n>, or of what is derived from it.
template <class T, int steps, int m, int n, int count, class Load, class Sums>
void multiply_in_warps(const Block<count>&, const Load& load, PerThread<Sums, count>& sums) {
  static_assert(count % 32 == 0, "a block of whole warps");
#ifdef __CUDACC__
  const int thread = static_cast<int>(threadIdx.x);
  for (int step = 0; step < steps; ++step) {
    const WarpFactors<m, n> factors = load(thread, step);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        detail::TensorProductOf<T>::add(factors.left[i], factors.right[j], sums[thread].at[i][j]);
      }
    }
  }
#else
  for (int first = 0; first < count; first += 32) {
    for (int step = 0; step < steps; ++step) {
      WarpFactors<m, n> factors[32];
      for (int lane = 0; lane < 32; ++lane) factors[lane] = load(first + lane, step);
      for (int i = 0; i < m; ++i) {
        detail::WarpMatrices<T> matrices;
        for (int lane = 0; lane < 32; ++lane) matrices.take_left(lane, factors[lane].left[i]);
        for (int j = 0; j < n; ++j) {
          for (int lane = 0; lane < 32; ++lane) {
            matrices.take_right(lane, factors[lane].right[j]);
            matrices.take_sums(lane, sums[first + lane].at[i][j]);
          }
          matrices.multiply();
          for (int lane = 0; lane < 32; ++lane) {
            matrices.give_sums(lane, sums[first + lane].at[i][j]);
          }
        }
      }
    }
  }
#endif
}

}  // namespace myops
