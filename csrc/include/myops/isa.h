// Kernels compiled once for each instruction set, and the choice between them at run time.
//
// Such an op has its arithmetic in headers, in the namespace MYOPS_ISA, and one file for each set
// in its folder isa/: `#include "myops/isa/avx2.h"`, then those headers. Shared code (descriptions,
// shape rules, the standard library) is included before the instruction set is switched on, because
// it must run on every CPU.
#pragma once

#include <cstdint>
#include <vector>

namespace myops {

// The enumerators exist on every machine; sets of another architecture are never chosen.
enum class Isa : uint8_t { Portable, Avx2, Avx512, Neon };

// The best set that this CPU and this binary support, or the one that the environment variable
// MYOPS_ISA names; decided at the first call. Throws if that name is unknown or not available.
Isa isa();
std::vector<Isa> available_isas();  // the best first
const char* isa_name(Isa isa);

// How a result is written.
enum class Stores : uint8_t {
  Plain,             // the result fits a near cache
  Prefetch,          // plain, and each cache line is prefetched for writing
  NonTemporal,       // bypasses the caches
  Ahead = Prefetch,  // the earlier names
  PastCaches = NonTemporal,
};

// Non-temporal stores save the read of every cache line that is written, but a core can have only
// few of them in flight. Measured on one core in GB/s, plain and non-temporal: AMD Zen 3 16 and 25,
// Zen 5 27 and 71, Intel Cascade Lake 8 (10 with prefetch) and 7. They are therefore used on AMD
// CPUs, or as the environment variable MYOPS_STREAMING_STORES (0 or 1) says; results are the same.
bool streaming_stores_pay();
// The size from which a result does not fit the shared last-level cache. (16 MiB on Zen 5: with
// non-temporal stores from there on, linear and cubic take 0.7 to 0.8 of the time, nearest 1.2
// times.)
int64_t cached_bytes();
// The stores for a result of `bytes` bytes.
Stores stores_for(int64_t bytes);

// Whether the instruction that gathers 64-bit elements is faster than a load for each. Measured on
// one core with 512 bits, in ns for 16 samples of deform_conv2d, gathered and loaded one by one:
// Intel Emerald Rapids 7.8 and 13. On older CPUs of Intel, updates of their microcode have made it
// slow, and on those of AMD it is many instructions. It is therefore used with AVX512-FP16, which
// Intel has had since Sapphire Rapids; results are the same.
bool gathers_pay();

template <class Function>
struct ForEachIsa {
  Function *portable, *avx2, *avx512, *neon;
  Function* choose() const {
    const Isa chosen = isa();
    return chosen == Isa::Avx2     ? avx2
           : chosen == Isa::Avx512 ? avx512
           : chosen == Isa::Neon   ? neon
                                   : portable;
  }
};

}  // namespace myops

#if defined(__x86_64__)
// Declares a function in the namespace of every set.
#define MYOPS_FOR_EACH_ISA(declaration) \
  namespace portable {                  \
  declaration;                          \
  }                                     \
  namespace avx2 {                      \
  declaration;                          \
  }                                     \
  namespace avx512 {                    \
  declaration;                          \
  }
// The function of the chosen set.
#define MYOPS_CHOOSE(function)                                                            \
  ::myops::ForEachIsa<decltype(portable::function)>{portable::function, avx2::function,   \
                                                    avx512::function, portable::function} \
      .choose()
#elif defined(__aarch64__)
#define MYOPS_FOR_EACH_ISA(declaration) \
  namespace portable {                  \
  declaration;                          \
  }                                     \
  namespace neon {                      \
  declaration;                          \
  }
#define MYOPS_CHOOSE(function)                                                              \
  ::myops::ForEachIsa<decltype(portable::function)>{portable::function, portable::function, \
                                                    portable::function, neon::function}     \
      .choose()
#else
#define MYOPS_FOR_EACH_ISA(declaration) \
  namespace portable {                  \
  declaration;                          \
  }
#define MYOPS_CHOOSE(function) (portable::function)
#endif
