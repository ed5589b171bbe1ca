// The few lines of a test framework that these tests need.
#pragma once

#include <atomic>
#include <cstdio>
#include <string>

inline std::atomic<int> failures{0};

inline void expect(bool condition, const std::string& what) {
  if (condition) return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

inline int finish(const char* name) {
  if (failures == 0) std::printf("all %s passed\n", name);
  if (failures != 0) std::printf("%d failures\n", failures.load());
  return failures == 0 ? 0 : 1;
}
