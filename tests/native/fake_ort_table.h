// The table of functions that the library gets, in parts.
#pragma once

#include <atomic>
#include <string>

#include "fake_ort_types.h"

namespace fake_ort {

using namespace myops::ort;

// The functions that the library may call, by name.
struct Functions {
#define FAKE_ORT_MEMBER(name, place, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  MYOPS_ORT_CALLS(FAKE_ORT_MEMBER)
  MYOPS_ORT_NEWER_CALLS(FAKE_ORT_MEMBER)
  MYOPS_ORT_GPU_CALLS(FAKE_ORT_MEMBER)
  MYOPS_ORT_NEWEST_CALLS(FAKE_ORT_MEMBER)
#undef FAKE_ORT_MEMBER
};

// The number of objects that have not been released.
extern std::atomic<int> statuses, values;

Status* refuse(const std::string& text, ErrorCode code = ErrorCode::Fail);

// fake_ort_attributes.cpp
void add_attribute_functions(Functions& f);

// fake_ort_cuda.cpp
void add_cuda_functions(Functions& f);

}  // namespace fake_ort
