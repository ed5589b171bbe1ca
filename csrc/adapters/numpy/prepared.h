// Op::prepare for arrays that nobody can write to.
#pragma once

#include <pybind11/numpy.h>

#include <optional>
#include <vector>

#include "myops/op.h"

namespace myops::numpy {

// As PreparedCache::find. An array counts as unchanged while it is the same object, it is not
// writeable, and neither is any array that it is a view of. Needs the GIL.
Prepared find_prepared(const Op& op, const std::vector<std::optional<pybind11::array>>& arrays,
                       const Tensors& inputs, const Attributes& attributes);

}  // namespace myops::numpy
