// What this machine can do: bandwidths in GB/s and fused multiply-adds in GFLOP/s, as JSON.
//
//   c++ -O3 -march=native -fopenmp limits.cpp -o limits && ./limits THREADS MEBIBYTES
//
// Bytes are counted as STREAM counts them: what the program asks for, without the reads that a
// plain store causes. "nt" are stores that go around the cache. Each number is the best of 7.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif

template <int Width>
using Vector __attribute__((vector_size(4 * Width))) = float;
using V = Vector<kWidth>;

bool has_nt() {
#if defined(__SSE__)
  return true;
#else
  return false;
#endif
}

void stream(float* to, V value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, value);
#elif defined(__AVX__)
  _mm256_stream_ps(to, value);
#elif defined(__SSE__)
  _mm_stream_ps(to, value);
#else
  std::memcpy(to, &value, sizeof(V));
#endif
}

void fence() {
#if defined(__SSE__)
  _mm_sfence();
#endif
}

V load(const float* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}

template <bool Nt>
void store(float* to, V value) {
  if constexpr (Nt) {
    stream(to, value);
  } else {
    std::memcpy(to, &value, sizeof(V));
  }
}

struct Arrays {
  float *a, *b, *c;
  int64_t count;  // floats in each, a multiple of 4 * kWidth * threads
};

double read(const Arrays& s, int64_t begin, int64_t end) {
  V sums[4] = {};
  for (int64_t i = begin; i < end; i += 4 * kWidth) {
    for (int j = 0; j < 4; ++j) sums[j] += load(s.b + i + j * kWidth);
  }
  const V total = sums[0] + sums[1] + sums[2] + sums[3];
  return total[0];
}

template <bool Nt>
double write(const Arrays& s, int64_t begin, int64_t end) {
  const V value = {1, 2, 3};
  for (int64_t i = begin; i < end; i += kWidth) store<Nt>(s.a + i, value);
  if (Nt) fence();
  return 0;
}

template <bool Nt>
double copy(const Arrays& s, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kWidth) store<Nt>(s.a + i, load(s.b + i));
  if (Nt) fence();
  return 0;
}

template <bool Nt>
double triad(const Arrays& s, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kWidth) {
    store<Nt>(s.a + i, load(s.b + i) * 3.0f + load(s.c + i));
  }
  if (Nt) fence();
  return 0;
}

double seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double sink = 0;  // keeps results alive

template <class Work>
double best_of(int repeats, Work work) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const double start = seconds();
    for (int j = 0; j < repeats; ++j) work();
    const double taken = (seconds() - start) / repeats;
    if (taken < best) best = taken;
  }
  return best;
}

using Kernel = double (*)(const Arrays&, int64_t, int64_t);

// GB/s of `kernel`, which moves `streams` arrays.
double bandwidth(Kernel kernel, int streams, const Arrays& s, int threads) {
  const int64_t bytes = streams * s.count * 4;
  const int repeats = static_cast<int>(1 + (int64_t{64} << 20) / bytes);
  const double taken = best_of(repeats, [&] {
#pragma omp parallel num_threads(threads) reduction(+ : sink)
    {
      const int64_t part = s.count / threads;
      const int64_t begin = part * omp_get_thread_num();
      sink += kernel(s, begin, begin + part);
    }
  });
  return static_cast<double>(bytes) / taken / 1e9;
}

// GFLOP/s of fused multiply-adds in registers.
template <int Width>
double multiply_add(int threads) {
  constexpr int kChains = 12;
  constexpr int64_t kSteps = 1 << 20;
  const double taken = best_of(1, [&] {
#pragma omp parallel num_threads(threads) reduction(+ : sink)
    {
      Vector<Width> sums[kChains];
      Vector<Width> x = {}, y = {};
      for (int i = 0; i < kChains; ++i) sums[i] = Vector<Width>{} + static_cast<float>(i);
      for (int i = 0; i < Width; ++i) x[i] = 0.999f, y[i] = 0.001f;
      for (int64_t step = 0; step < kSteps; ++step) {
        for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * x + y;
      }
      for (int i = 0; i < kChains; ++i) sink += sums[i][0];
    }
  });
  return 2.0 * Width * kChains * kSteps * threads / taken / 1e9;
}

float* allocate(int64_t count, int threads) {
  auto* memory = static_cast<float*>(std::aligned_alloc(4096, count * 4));
  if (memory == nullptr) std::exit(1);
#pragma omp parallel num_threads(threads)
  {
    const int64_t part = count / threads;
    std::memset(memory + part * omp_get_thread_num(), 0, part * 4);
  }
  return memory;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int64_t mebibytes = argc > 2 ? std::atoi(argv[2]) : 256;
  const int64_t count = (mebibytes << 18) / (1024 * threads) * (1024 * threads);
  Arrays s{allocate(count, threads), allocate(count, threads), allocate(count, threads), count};
  Arrays small = s;  // 3 x 2 MiB: in the cache, unless it is very small
  small.count = (std::min<int64_t>(2, mebibytes) << 18) / (1024 * threads) * (1024 * threads);
  double peak = multiply_add<8>(threads);
  if (kWidth > 8) {
    const double wide = multiply_add<16>(threads);
    if (wide > peak) peak = wide;
  }
  std::printf("{\"read\": %.2f, \"write\": %.2f, \"copy\": %.2f, \"triad\": %.2f,\n",
              bandwidth(read, 1, s, threads), bandwidth(write<false>, 1, s, threads),
              bandwidth(copy<false>, 2, s, threads), bandwidth(triad<false>, 3, s, threads));
  if (has_nt()) {
    std::printf(" \"write nt\": %.2f, \"copy nt\": %.2f, \"triad nt\": %.2f,\n",
                bandwidth(write<true>, 1, s, threads), bandwidth(copy<true>, 2, s, threads),
                bandwidth(triad<true>, 3, s, threads));
  }
  std::printf(" \"triad in cache\": %.2f, \"fma\": %.2f}\n",
              bandwidth(triad<false>, 3, small, threads), peak);
  return sink == 0.123 ? 1 : 0;
}
