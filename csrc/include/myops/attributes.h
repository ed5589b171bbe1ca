// Attribute declarations and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "myops/error.h"

namespace myops {

using AttributeVariant =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, std::monostate>;

// Alternatives in the order of AttributeType; std::monostate: no value was given. A float is stored
// as a double whose value float32 can represent, because an ONNX attribute has no more precision,
// and torch must not differ from it. The value of an exact() attribute is not rounded.
struct AttributeValue : AttributeVariant {
  using Held = AttributeVariant;
  using Held::Held;
  using Held::operator=;

  AttributeValue() = default;
  // std::variant of GCC 12 crashes if the copy of its string or list runs out of memory, so the
  // value is copied first and then moved.
  AttributeValue(const AttributeValue& other)
      : Held(std::visit([](const auto& held) { return Held(held); }, other.held())) {}
  AttributeValue(AttributeValue&&) noexcept = default;
  AttributeValue& operator=(const AttributeValue& other) { return *this = AttributeValue(other); }
  AttributeValue& operator=(AttributeValue&&) noexcept = default;
  ~AttributeValue() = default;

  const Held& held() const { return *this; }  // for std::visit()
  bool given() const { return !std::holds_alternative<std::monostate>(held()); }
};

enum class AttributeType : uint8_t {
  Bool,
  Int,
  Float,
  String,
  Ints,
  Floats,
  Strings,
  Double,  // a float of 64 bits; see Attribute::exact()
  Doubles,
};

struct Attribute {
  std::string name;
  AttributeValue default_value;  // for required() and optional(), only its type counts
  std::string doc;
  std::vector<std::string> choices = {};  // legal strings; empty: any
  std::optional<double> bound = {};       // lower bound of a number, or of each number of a list
  bool above_bound = false;               // the bound itself is refused too
  std::optional<double> upper = {};       // upper bound
  bool below_upper = false;
  std::vector<int64_t> integers = {};  // legal ints; empty: any
  bool is_required = false, is_optional = false, is_exact = false;

  // Attribute{"radius", 1.5, "In pixels; above 0."}.above(0): anything else, NaN too, is refused.
  Attribute above(double number) && { return bound = number, above_bound = true, std::move(*this); }
  Attribute at_least(double number) && { return bound = number, std::move(*this); }
  Attribute below(double number) && { return upper = number, below_upper = true, std::move(*this); }
  Attribute at_most(double number) && { return upper = number, std::move(*this); }
  // The legal values; of a list, those of its elements.
  Attribute one_of(std::vector<int64_t> numbers) && {
    return integers = std::move(numbers), std::move(*this);
  }
  Attribute one_of(std::vector<std::string> texts) && {
    return choices = std::move(texts), std::move(*this);
  }
  // Every call has to give it: there is no default.
  Attribute required() && { return is_required = true, std::move(*this); }
  // A call may leave it out, or pass None: Attributes::has() is then false.
  Attribute optional() && { return is_optional = true, std::move(*this); }
  // Of a float, or a list of them: 64 bits, which an ONNX model stores in a tensor. Without it a
  // value such as 0.7, also the default, is rounded to 32 bits, for data of float64 too.
  Attribute exact() && { return is_exact = true, std::move(*this); }

  // A value as every runtime computes with it: float32 unless the attribute is exact().
  double rounded(double number) const { return is_exact ? number : static_cast<float>(number); }
  AttributeValue rounded(AttributeValue value) const {
    if (auto* real = std::get_if<double>(&value)) *real = rounded(*real);
    if (auto* reals = std::get_if<std::vector<double>>(&value)) {
      for (double& real : *reals) real = rounded(real);
    }
    return value;
  }

  AttributeType type() const {
    const auto type = static_cast<AttributeType>(default_value.index());
    if (!is_exact) return type;
    return type == AttributeType::Floats ? AttributeType::Doubles : AttributeType::Double;
  }
};

namespace detail {
const char* kind_of(const AttributeValue& value);  // "a float"
// Messages for a kernel that reads an attribute that is not declared, or as another type.
std::string unknown_attribute(const char* name, const std::vector<Attribute>& declared);
std::string wrong_kind(const char* name, const AttributeValue& value, const AttributeValue& asked);
}  // namespace detail

// The values for one call, in the order of the declarations.
class Attributes {
 public:
  explicit Attributes(const std::vector<Attribute>& declared) : declared_(&declared) {
    values_.reserve(declared.size());
    for (const Attribute& attribute : declared) {
      const bool none = attribute.is_required || attribute.is_optional;
      values_.push_back(none ? AttributeValue(std::monostate()) : attribute.default_value);
    }
  }

  void set(size_t index, AttributeValue value) {
    values_[index] = (*declared_)[index].rounded(std::move(value));
  }

  const AttributeValue& value(size_t index) const { return values_[index]; }
  const std::vector<AttributeValue>& values() const { return values_; }
  const std::vector<Attribute>& declared() const { return *declared_; }

  // Whether an optional() attribute was given.
  bool has(const char* name) const { return find(name).given(); }
  bool flag(const char* name) const { return get<bool>(name); }
  int64_t integer(const char* name) const { return get<int64_t>(name); }
  double real(const char* name) const { return get<double>(name); }
  const std::string& text(const char* name) const { return get<std::string>(name); }
  const std::vector<int64_t>& integers(const char* name) const {
    return get<std::vector<int64_t>>(name);
  }
  const std::vector<double>& reals(const char* name) const {
    return get<std::vector<double>>(name);
  }
  const std::vector<std::string>& texts(const char* name) const {
    return get<std::vector<std::string>>(name);
  }

 private:
  const AttributeValue& find(const char* name) const {
    for (size_t i = 0; i < declared_->size(); ++i) {
      if ((*declared_)[i].name == name) return values_[i];
    }
    throw Mistake(detail::unknown_attribute(name, *declared_));
  }
  template <class T>
  const T& get(const char* name) const {
    const AttributeValue& value = find(name);
    if (const T* held = std::get_if<T>(&value)) return *held;
    throw Mistake(detail::wrong_kind(name, value, AttributeValue(T())));
  }

  const std::vector<Attribute>* declared_;
  std::vector<AttributeValue> values_;
};

}  // namespace myops
