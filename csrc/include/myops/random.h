// Random numbers for kernels: a generator without state, so that the number of an element depends
// on the seed and on the element's place only, never on threads, pieces of work or other calls.
//
//   const Philox random(context.seed());
//   context.parallel_for(x.elements(), 4096, [&](int64_t begin, int64_t end) {
//     for (int64_t i = begin; i < end; ++i) y[i] = random.uniform(i) < p ? 0 : x[i];
//   });
//
// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011), as in cuRAND: it reproduces the published test vectors.
// `myops.Philox` is the same generator in Python.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace myops {

class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  // Generators with equal seeds and different streams are independent; an op that needs several
  // independent numbers for each element uses a stream for each.
  explicit Philox(uint64_t seed, uint64_t stream = 0)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, stream_(stream) {}

  // Four numbers of 32 random bits.
  Block block(uint64_t index) const {
    return rounds({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                   static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                  key_);
  }
  // Element `index` of the stream: 32 random bits.
  uint32_t bits(uint64_t index) const { return block(index / 4)[index % 4]; }

  // From 0 on and below 1, a multiple of 2^-24: exact in float32.
  float uniform(uint64_t index) const {
    return static_cast<float>(bits(index) >> 8) * 5.9604644775390625e-8f;
  }
  // From 0 on and below 1, a multiple of 2^-53.
  double uniform_double(uint64_t index) const {
    const Block four = block(index / 2);
    const size_t first = index % 2 * 2;
    const uint64_t high = four[first] >> 5, low = four[first + 1] >> 6;
    return static_cast<double>(high << 26 | low) * 0x1p-53;
  }
  // Normally distributed, with mean 0 and variance 1 (the Box-Muller method).
  double normal(uint64_t index) const {
    const double radius = std::sqrt(-2 * std::log(1 - uniform_double(2 * index)));
    return radius * std::cos(6.283185307179586 * uniform_double(2 * index + 1));
  }

  // The generator itself: ten rounds on a counter of 128 bits with a key of 64.
  static Block rounds(Block counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t first = uint64_t{0xD2511F53} * counter[0];
      const uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
      counter = {
          static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
          static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
      key[0] += 0x9E3779B9;
      key[1] += 0xBB67AE85;
    }
    return counter;
  }

 private:
  std::array<uint32_t, 2> key_;
  uint64_t stream_;
};

}  // namespace myops
