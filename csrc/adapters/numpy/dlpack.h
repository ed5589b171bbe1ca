// The part of DLPack's C exchange interface (version 1) that is used here: how a Python object
// tells where its numbers lie, without an allocation.
// https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>

namespace myops::dlpack {

enum DeviceType : int32_t { kCpu = 1 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4 };

struct Device {
  int32_t type;
  int32_t number;
};
struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

inline constexpr const char* kCapsule = "dlpack_exchange_api";
struct ExchangeApi {
  struct {
    uint32_t major, minor;
  } version;
  ExchangeApi* previous;
  void* allocator;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* object, Tensor* out);  // may be null
  void* current_stream;
};

}  // namespace myops::dlpack
