// Which instruction set the kernels use.
#include "myops/isa.h"

#include <cstdlib>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "myops/error.h"
#include "report.h"

namespace myops {
namespace {

constexpr Isa kBestFirst[] = {Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Portable};

#if defined(__x86_64__)
// Clang 14 has no name for F16C. The operating system support that it needs is that of AVX2.
bool has_f16c() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

bool available(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::Avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    case Isa::Avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             available(Isa::Avx2);
#elif defined(__aarch64__)
    case Isa::Neon:
      return true;
#endif
    default:
      return isa == Isa::Portable;
  }
}

Isa decide() {
  const char* wanted = std::getenv("MYOPS_ISA");
  const bool forced = wanted != nullptr && *wanted != '\0';
  std::string known;
  for (const Isa isa : available_isas()) {
    if (!forced || std::string(wanted) == isa_name(isa)) return isa;
    known += known.empty() ? "" : ", ";
    known += isa_name(isa);
  }
  throw Error(str("MYOPS_ISA: got \"", wanted, "\", expected an instruction set of this CPU: ",
                  known, ". Unset it to use the best one"));
}

bool decide_streaming() {
  const char* wanted = std::getenv("MYOPS_STREAMING_STORES");
  if (wanted != nullptr && *wanted != '\0') {
    const std::string text(wanted);
    if (text == "0" || text == "1") return text == "1";
    throw Error(str("MYOPS_STREAMING_STORES: got ", quoted(text), ", expected 0 or 1"));
  }
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

}  // namespace

std::vector<Isa> available_isas() {
  std::vector<Isa> found;
  for (const Isa isa : kBestFirst) {
    if (available(isa)) found.push_back(isa);
  }
  return found;
}

const char* isa_name(Isa isa) {
  constexpr const char* names[] = {"portable", "avx2", "avx512", "neon"};
  return names[static_cast<int>(isa)];
}

bool streaming_stores_pay() {
  static const bool pay = decide_streaming();
  return pay;
}

#ifdef MYOPS_CACHED_BYTES  // in a test build, where small results count as large ones
int64_t cached_bytes() { return MYOPS_CACHED_BYTES; }
constexpr int64_t kNearBytes = MYOPS_CACHED_BYTES / 4;
#else
int64_t cached_bytes() { return streaming_stores_pay() ? 16 << 20 : 6 << 20; }
constexpr int64_t kNearBytes = 1 << 20;
#endif

Stores stores_for(int64_t bytes) {
  if (streaming_stores_pay() && bytes >= cached_bytes()) return Stores::NonTemporal;
  return bytes > kNearBytes ? Stores::Prefetch : Stores::Plain;
}

Isa isa() {
  static const Isa chosen = decide();
  if (calls_are_reported()) note_instruction_set();
  return chosen;
}

}  // namespace myops
