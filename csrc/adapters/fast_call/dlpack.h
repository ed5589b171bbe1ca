// DLPack's official header, as PyTorch ships it: C declarations only, so that nothing of PyTorch is
// linked. https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <ATen/dlpack.h>

static_assert(DLPACK_MAJOR_VERSION == 1, "the exchange interface of DLPack 1 is used here");

namespace myops {

// Of the capsule that holds a DLPackExchangeAPI.
inline constexpr const char* kDlpackCapsule = "dlpack_exchange_api";

}  // namespace myops
