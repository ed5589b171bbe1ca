// A call of an op, as a hostile model or a careless program would make it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../native/fake_ort.h"
#include "bytes.h"
#include "myops/op.h"

namespace fuzz {

struct Argument {
  myops::DType dtype;
  myops::Shape shape;
  std::vector<uint8_t> bytes;  // row-major, exactly the size of the shape
};

using NamedAttributes = std::vector<std::pair<std::string, fake_ort::NodeAttribute>>;

struct Call {
  const myops::Op* op;
  std::vector<std::optional<Argument>> inputs;
  NamedAttributes attributes;
  // The classes under which the table at the end of a run counts it, such as "groups: 8 and more".
  std::vector<std::string> facts;
};

// Mostly a call that the op accepts, occasionally with one mistake; sometimes a random one.
Call make_call(Bytes& bytes);

// "resize(float32 [2 3 4], ...; mode=linear)".
std::string describe(const Call& call);

}  // namespace fuzz
