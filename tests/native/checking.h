// A minimal test framework.
#pragma once

#include <atomic>
#include <cstdio>
#include <string>

// The sanitizer that a test is compiled with, as GCC or as Clang says it.
#if defined(__has_feature)
#define MYOPS_TEST_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#define MYOPS_TEST_THREAD_SANITIZER __has_feature(thread_sanitizer)
#endif
#if defined(__SANITIZE_ADDRESS__)
#undef MYOPS_TEST_ADDRESS_SANITIZER
#define MYOPS_TEST_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#undef MYOPS_TEST_THREAD_SANITIZER
#define MYOPS_TEST_THREAD_SANITIZER 1
#endif

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
