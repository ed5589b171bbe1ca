// Mistakes in the code of an op that its description shows: attributes of other names or types, and
// dtypes that a kernel does not know.
#include "checks.h"
#include "myops/op.h"

namespace myops {

const char* detail::kind_of(const AttributeValue& value) {
  constexpr const char* kinds[] = {
      "a bool",         "an int",           "a float",           "a string",
      "a list of ints", "a list of floats", "a list of strings", "nothing"};
  return kinds[value.index()];
}

std::string detail::unknown_attribute(const char* name, const std::vector<Attribute>& declared) {
  std::vector<std::string> names;
  for (const Attribute& attribute : declared) names.push_back(attribute.name);
  return str(name, ": got an attribute of this name in the code of the op, expected one of ",
             names);
}

std::string detail::wrong_kind(const char* name, const AttributeValue& value,
                               const AttributeValue& asked) {
  if (!value.given()) {
    return str(name, ": got nothing, expected ", kind_of(asked),
               ", which the code of the op reads; "
               "has() tells whether an optional attribute was given");
  }
  return str(name, ": got code that reads ", kind_of(asked), ", expected ", kind_of(value),
             ", as the op declares it");
}

void detail::refuse_dispatch(DType dtype, std::initializer_list<DType> known) {
  throw Mistake(str("kernel: got dtype ", dtype_name(dtype), ", expected ", dtype_names(known),
                    ", which it is written for. Declare and dispatch the same dtypes"));
}

}  // namespace myops
