// Op::prepare in torch: one cache for each op, for calls from the dispatcher and for fast calls.
#pragma once

#include "../../core/prepared_cache.h"

namespace myops::torch_adapter {

// As PreparedCache::find; `tensors` has a pointer to torch's tensor for each input, or null.
Prepared find_prepared(const Op& op, const Tensors& inputs, const Attributes& attributes,
                       const SmallVector<const void*, 6>& tensors);

}  // namespace myops::torch_adapter
