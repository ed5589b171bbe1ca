// Every other input of libFuzzer is a few random bytes, which are a call of their own (bytes.h):
// so all kinds of calls stay as frequent as planned, independently of libFuzzer's coverage.
#include <cstddef>
#include <cstdint>
#include <random>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  constexpr size_t few = 8;
  if (seed % 2 == 0 || most < few) return LLVMFuzzerMutate(data, size, most);
  std::mt19937 random(seed);
  for (size_t i = 0; i < few; ++i) data[i] = static_cast<uint8_t>(random());
  return few;
}
