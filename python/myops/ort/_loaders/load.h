// Loads the model of this folder with the official C++ API of ONNX Runtime (1.17 or later).
//
//   #include "load.h"
//
//   Ort::Env env;
//   Ort::Session session = bundle::session(env, "where/this/folder/is");
//
// What is wrong with the folder is thrown as std::runtime_error. Needs C++17.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace bundle {

struct Library {
  std::string file;
  std::string sha256;
};

// Filled in when the bundle is made.
inline const std::string model = "";
inline const std::string platform = "";
inline const std::vector<Library> libraries = {};

// The system and processor that this program was compiled for.
inline std::string this_platform() {
#if defined(__linux__)
  std::string name = "linux-";
#else
  std::string name = "other-";  // for which nobody makes bundles
#endif
#if defined(__x86_64__)
  return name + "x86_64";
#elif defined(__aarch64__)
  return name + "aarch64";
#else
  return name + "other";
#endif
}

namespace detail {

inline uint32_t rotated(uint32_t word, int by) { return word >> by | word << (32 - by); }

inline constexpr uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// SHA-256 as in FIPS 180-4.
class Sha256 {
 public:
  void add(const uint8_t* data, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      block_[size_++ % 64] = data[i];
      if (size_ % 64 == 0) mix();
    }
  }

  // The digest in hexadecimal digits. Ends the use of this object.
  std::string finish() {
    const uint64_t bits = size_ * 8;
    const uint8_t one = 0x80, zero = 0;
    add(&one, 1);
    while (size_ % 64 != 56) add(&zero, 1);
    for (int shift = 56; shift >= 0; shift -= 8) {
      const uint8_t byte = static_cast<uint8_t>(bits >> shift);
      add(&byte, 1);
    }
    std::string text;
    for (uint32_t word : state_) {
      char digits[9];
      std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(word));
      text += digits;
    }
    return text;
  }

 private:
  void mix() {
    std::array<uint32_t, 64> w;
    for (int i = 0; i < 16; ++i) {
      w[i] = uint32_t{block_[4 * i]} << 24 | uint32_t{block_[4 * i + 1]} << 16 |
             uint32_t{block_[4 * i + 2]} << 8 | block_[4 * i + 3];
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) +
             (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (int i = 0; i < 64; ++i) {
      const uint32_t first = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) +
                             ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
      const uint32_t second =
          (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const uint32_t mixed[] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state_[i] += mixed[i];
  }

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_{};
  uint64_t size_ = 0;
};

inline std::string sha256(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  Sha256 digest;
  std::vector<char> buffer(1 << 16);
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    digest.add(reinterpret_cast<const uint8_t*>(buffer.data()), file.gcount());
  }
  return digest.finish();
}

}  // namespace detail

// Throws if a library in the folder is missing, for another platform, or not what was bundled.
inline void check_libraries(const std::filesystem::path& folder) {
  if (!libraries.empty() && this_platform() != platform) {
    throw std::runtime_error("the libraries in " + folder.string() + " are for " + platform +
                             ", this is " + this_platform() +
                             "; make the bundle again on such a machine (myops bundle)");
  }
  for (const Library& library : libraries) {
    const std::filesystem::path path = folder / library.file;
    if (!std::filesystem::is_regular_file(path)) {
      throw std::runtime_error(path.string() + " is missing; copy the whole bundle again");
    }
    const std::string got = detail::sha256(path);
    if (got != library.sha256) {
      throw std::runtime_error(path.string() +
                               " is not the library that was bundled: got SHA-256 " + got +
                               ", expected " + library.sha256 + "; copy the whole bundle again");
    }
  }
}

// A session of the model. The libraries are added to `options`.
inline Ort::Session session(Ort::Env& env, const std::filesystem::path& folder,
                            Ort::SessionOptions options = Ort::SessionOptions()) {
  check_libraries(folder);
  for (const Library& library : libraries) {
    // An absolute path: a bare name would be looked for in the system's folders.
    const std::filesystem::path path = std::filesystem::absolute(folder / library.file);
    options.RegisterCustomOpsLibrary(path.c_str());
  }
  return Ort::Session(env, (folder / model).c_str(), options);
}

}  // namespace bundle
