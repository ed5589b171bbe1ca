// For ops on integers of 8 bits that are also compiled for isa/avx512_vnni.h.
#pragma once

namespace myops {

// Whether isa() is AVX-512 and the CPU has its dot products of bytes (VNNI).
bool has_byte_products();

}  // namespace myops
