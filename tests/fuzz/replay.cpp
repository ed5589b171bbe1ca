// Runs the fuzz target without libFuzzer, for compilers that do not have it:
//
//   fuzz_ops FILE...                   what libFuzzer wrote for a call that failed
//   fuzz_ops [-runs=N] [-seed=N]       calls of random bytes, of which none depends on another
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  long long runs = 0;
  unsigned long long seed = std::random_device()();
  for (int i = 1; i < argc; ++i) {
    if (std::sscanf(argv[i], "-runs=%lld", &runs) == 1) continue;
    if (std::sscanf(argv[i], "-seed=%llu", &seed) == 1) continue;
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s: expected -runs=N, -seed=N or a file\n", argv[i]);
      return 2;
    }
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  std::mt19937_64 random(seed);
  for (; runs > 0; --runs) {
    uint8_t bytes[8];
    const uint64_t drawn = random();
    std::memcpy(bytes, &drawn, sizeof bytes);
    LLVMFuzzerTestOneInput(bytes, sizeof bytes);
  }
  return 0;
}
