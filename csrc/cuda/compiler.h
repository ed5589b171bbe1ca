// NVRTC, NVIDIA's compiler as a library, loaded when the first source is compiled.
#pragma once

#include <string>
#include <vector>

#include "myops/cuda.h"

namespace myops::cuda {

// A source as it is compiled: what the result depends on.
struct Request {
  Source source;
  std::string element;  // the C++ type MYOPS_T
  int architecture;     // 90
};

// The version of NVRTC, such as "13.0". Throws "op: CUDA: ..." where there is none.
std::string compiler_version(const std::string& op, int driver_version);

// Machine code (a cubin) or, where the compiler is older than the GPU, text that the driver
// translates (PTX). Throws with the compiler's messages, which name file and line. NVRTC is loaded
// for a driver of this version.
std::string compile(const std::string& op, const Request& request, int driver_version);

// The same, taken from the folder on disk where an earlier process has compiled it:
// MYOPS_CUDA_CACHE, by default ~/.cache/myops/cuda; none if that is empty.
std::string compiled(const std::string& op, const Request& request, int driver_version);

// What is passed to the compiler; part of what names an entry on disk.
std::vector<std::string> options(const Request& request);

// Files that every source may include: those of myops, and what they include of C++.
std::vector<File> standard_files();

}  // namespace myops::cuda
