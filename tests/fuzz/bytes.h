// Decisions from the bytes of a fuzzer. After the last byte, a generator seeded with them decides,
// so that a few bytes are a whole call, and a fuzzer that changes one of the first decisions keeps
// those that follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>

namespace fuzz {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {
    for (size_t i = 0; i < size; ++i) state_ = (state_ ^ data[i]) * 0x100000001b3u;
  }

  uint8_t byte() { return at_ < size_ ? data_[at_++] : static_cast<uint8_t>(random()); }
  // From 0 to bound - 1.
  size_t below(size_t bound) {
    if (bound <= 1) return 0;
    size_t value = 0;
    for (size_t rest = bound - 1; rest > 0; rest >>= 8) value = value << 8 | byte();
    return value % bound;
  }
  // True about once in `n`, for n up to 256.
  bool one_in(size_t n) { return byte() % n == n - 1; }

  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<size_t>(high - low + 1)));
  }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }

  // A number in a model file: mostly small, sometimes absurd.
  int64_t integer() {
    static const int64_t absurd[] = {0,
                                     -1,
                                     4096,
                                     4097,
                                     65536,
                                     (int64_t{1} << 20) + 1,
                                     2147483646,
                                     2147483647,
                                     2147483648,
                                     int64_t{1} << 40,
                                     (int64_t{1} << 40) + 1,
                                     (int64_t{1} << 53) + 1,
                                     int64_t{1} << 62,
                                     INT64_MAX,
                                     INT64_MAX - 1,
                                     INT64_MIN,
                                     INT64_MIN + 1,
                                     -2147483648};
    return one_in(4) ? absurd[below(std::size(absurd))] : between(-3, 12);
  }

  double real() {
    static const double absurd[] = {0.0,    -0.0, -1.0,  1e-45, 1e-38, 1e-7,    3e38,  1e300,
                                    -1e300, 1e19, -1e19, 1e9,   0.999, 1.00001, 1e-300};
    const uint8_t kind = byte();
    if (kind % 16 == 13) return static_cast<double>(__builtin_nanf(""));
    if (kind % 16 == 14) return (kind & 16 ? 1 : -1) * static_cast<double>(__builtin_inff());
    if (kind % 16 == 15) return absurd[below(std::size(absurd))];
    return static_cast<double>(between(-40, 120)) / 32.0;
  }

  std::string text() {
    std::string result;
    for (size_t length = below(8); length > 0; --length) {
      result += static_cast<char>(byte());
    }
    return result;
  }

  // For the numbers of whole tensors, of which there are too many for the bytes (splitmix64).
  uint32_t random() {
    uint64_t mixed = state_ += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>(mixed >> 32);
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
  uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace fuzz
