// Names that are not free for a library of ops.
#pragma once

#include <string>

namespace myops {

// Whose domain or namespace a name is: "ai.onnx" for "ai.onnx.ml"; empty if it is free.
std::string taken_by(const std::string& name);

}  // namespace myops
