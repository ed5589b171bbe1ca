// NVRTC, NVIDIA's compiler as a library, loaded when the first source is compiled.
#pragma once

#include <string>
#include <vector>

#include "myops/cuda.h"

namespace myops::cuda {

// A source and everything else on which the compiled code depends.
struct Request {
  Source source;
  std::string element;  // the C++ type MYOPS_T
  int architecture;     // 90
};

// The version of NVRTC, such as "13.0". Throws "op: CUDA: ..." where there is none.
std::string compiler_version(const std::string& op, int driver_version);

// Returns machine code (a cubin) or, where the compiler is older than the GPU, PTX, which the
// driver translates. Throws an Error with the compiler's messages, which name file and line.
// `driver_version` decides which NVRTC is loaded.
std::string compile(const std::string& op, const Request& request, int driver_version);

// The same, read from disk if an earlier process has compiled it. The folder is MYOPS_CUDA_CACHE,
// by default ~/.cache/myops/cuda; if it is empty, nothing is stored.
std::string compiled(const std::string& op, const Request& request, int driver_version);

// The options of the compiler; a part of the key of an entry on disk.
std::vector<std::string> options(const Request& request);

// Files that every source may include: headers of myops, and the standard headers that these
// include.
std::vector<File> standard_files();

}  // namespace myops::cuda
