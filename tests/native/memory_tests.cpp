// Scratch memory: aligned, found again by equal calls, never by two at a time.
#include <thread>
#include <vector>

#include "checking.h"
#include "myops/memory.h"

namespace {

using myops::Scratch;

bool aligned(const Scratch& memory) {
  return reinterpret_cast<uintptr_t>(memory.as<char>()) % 64 == 0;
}

void test_alignment() {
  for (const size_t bytes : {0, 1, 63, 64, 4096, 20000, 1 << 20, 5 << 20}) {
    const Scratch memory(bytes);
    expect(aligned(memory), "aligned to a cache line");
    std::fill_n(memory.as<char>(), bytes, 'x');  // sanitizers see a block that is too short
  }
}

void test_equal_blocks_are_found_again() {
#if !defined(__SANITIZE_ADDRESS__)
  const auto place = [](size_t bytes) { return Scratch(bytes).as<char>(); };
  const char* const first = place(1 << 20);
  const Scratch beside(100);  // what malloc() alone would do is not what is tested
  expect(place(1 << 20) == first, "a block of the same size");
  expect(place((1 << 20) - 5000) == first, "a block that is little longer");
  const Scratch one(1 << 20), two(1 << 20);
  expect(one.as<char>() != two.as<char>(), "never for two at a time");
#endif
}

void test_threads() {
  std::vector<std::thread> threads;
  for (char name = 0; name < 4; ++name) {
    threads.emplace_back([name] {
      for (int round = 0; round < 200; ++round) {
        const size_t bytes = 20000 + static_cast<size_t>(round % 7) * 50000;
        const Scratch memory(bytes);
        std::fill_n(memory.as<char>(), bytes, name);
        bool own = true;
        for (size_t i = 0; i < bytes; i += 512) own = own && memory.as<char>()[i] == name;
        expect(own, "nobody else writes into it");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  test_alignment();
  test_equal_blocks_are_found_again();
  test_threads();
  return finish("memory tests");
}
