// The names of a library: the domain of its ONNX nodes and the namespace of its torch ops. The
// build gives both to library_names.cpp alone, so that all other objects are the same in every
// library and are compiled once.
#pragma once

namespace myops {

const char* library_domain();
const char* library_namespace();

}  // namespace myops
