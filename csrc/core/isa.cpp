// Which instruction set the kernels use.
#include "myops/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "myops/error.h"
#include "myops/isa/bfloat16_products.h"
#include "myops/isa/byte_products.h"
#include "report.h"

namespace myops {
namespace {

constexpr Isa kBestFirst[] = {Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Portable};

#if defined(__x86_64__)
// Uses CPUID directly: __builtin_cpu_supports needs the compiler's own library, and that of zig,
// which links our wheels, returns false for every feature.
struct Cpu {
  unsigned int leaf1_c = 0, leaf7_b = 0, leaf7_c = 0, leaf7_d = 0, leaf7_1_a = 0;
  unsigned int saved = 0;  // the registers that the system saves when it switches threads
  bool amd = false;

  Cpu() {
    unsigned int a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(0, &a, &b, &c, &d)) amd = b == signature_AMD_ebx && c == signature_AMD_ecx;
    if (__get_cpuid(1, &a, &b, &leaf1_c, &d) && (leaf1_c & bit_OSXSAVE)) {
      __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    }
    // The CPU answers how many further leaves 7 it has; those beyond would repeat another one.
    if (__get_cpuid_count(7, 0, &a, &leaf7_b, &leaf7_c, &leaf7_d) && a >= 1) {
      __get_cpuid_count(7, 1, &leaf7_1_a, &b, &c, &d);
    }
  }

  bool avx2() const {
    constexpr unsigned int kLeaf1 = bit_AVX | bit_FMA | bit_F16C, kVectors = 0x06;
    return (leaf1_c & kLeaf1) == kLeaf1 && (leaf7_b & bit_AVX2) && (saved & kVectors) == kVectors;
  }

  bool avx512() const {
    constexpr unsigned int kLeaf7 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    constexpr unsigned int kVectorsAndMasks = 0xe6;
    return avx2() && (leaf7_b & kLeaf7) == kLeaf7 && (saved & kVectorsAndMasks) == kVectorsAndMasks;
  }
};

const Cpu& cpu() {
  static const Cpu found;
  return found;
}
#endif

bool available(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::Avx2:
      return cpu().avx2();
    case Isa::Avx512:
      return cpu().avx512();
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

// What is faster on CPUs of AMD only, unless an environment variable, 0 or 1, says otherwise.
bool decide(const char* variable) {
  const char* wanted = std::getenv(variable);
  if (wanted != nullptr && *wanted != '\0') {
    const std::string text(wanted);
    if (text == "0" || text == "1") return text == "1";
    throw Error(str(variable, ": got ", quoted(text), ", expected 0 or 1"));
  }
#if defined(__x86_64__)
  return cpu().amd;
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

bool has_byte_products() {
#if defined(__x86_64__)
  return isa() == Isa::Avx512 && (cpu().leaf7_c & bit_AVX512VNNI) != 0;
#else
  return false;
#endif
}

bool has_bfloat16_products() {
#if defined(__x86_64__)
  constexpr unsigned int kBFloat16 = 1U << 5;  // bit_AVX512BF16 in newer cpuid.h
  return isa() == Isa::Avx512 && (cpu().leaf7_1_a & kBFloat16) != 0;
#else
  return false;
#endif
}

bool bfloat16_products_pay() {
  static const bool pay = decide("MYOPS_BFLOAT16_PRODUCTS");
  return pay && has_bfloat16_products();
}

bool gathers_pay() {
#if defined(__x86_64__)
  constexpr unsigned int kHalf = 1U << 23;  // bit_AVX512FP16 in newer cpuid.h
  return isa() == Isa::Avx512 && (cpu().leaf7_d & kHalf) != 0;
#else
  return false;
#endif
}

bool streaming_stores_pay() {
  static const bool pay = decide("MYOPS_STREAMING_STORES");
  return pay;
}

int64_t cached_bytes() {
  // Tests set it, so that small results take the ways of large ones.
  static const char* given = std::getenv("MYOPS_CACHED_BYTES");
  static const int64_t bytes = given != nullptr         ? std::strtoll(given, nullptr, 10)
                               : streaming_stores_pay() ? 16 << 20
                                                        : 6 << 20;
  return bytes;
}

Stores stores_for(int64_t bytes) {
  static const int64_t near = std::min<int64_t>(1 << 20, cached_bytes() / 4);
  if (streaming_stores_pay() && bytes >= cached_bytes()) return Stores::NonTemporal;
  return bytes > near ? Stores::Prefetch : Stores::Plain;
}

Isa isa() {
  static const Isa chosen = decide();
  if (calls_are_reported()) note_instruction_set();
  return chosen;
}

}  // namespace myops
