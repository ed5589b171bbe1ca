// Attribute declarations and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace myops {

// Alternatives in the order of AttributeType. Floats are kept as double but always hold a value
// that float32 can represent: an ONNX attribute has no more, and torch must not differ from it.
using AttributeValue =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

enum class AttributeType : uint8_t { Bool, Int, Float, String, Ints, Floats };

struct Attribute {
  std::string name;
  AttributeValue default_value;
  std::string doc;
  std::vector<std::string> choices = {};  // legal strings; empty: any
  std::optional<double> bound = {};       // that a number, or each of a list, must not fall below
  bool above_bound = false;               // nor reach

  // Attribute{"radius", 1.5, "In pixels; above 0."}.above(0): anything else, NaN too, is refused.
  Attribute above(double number) && { return bound = number, above_bound = true, std::move(*this); }
  Attribute at_least(double number) && { return bound = number, std::move(*this); }

  AttributeType type() const { return static_cast<AttributeType>(default_value.index()); }
};

// The values for one call, in the order of the declarations.
class Attributes {
 public:
  explicit Attributes(const std::vector<Attribute>& declared) : declared_(&declared) {
    values_.reserve(declared.size());
    for (const Attribute& attribute : declared) values_.push_back(attribute.default_value);
  }

  void set(size_t index, AttributeValue value) {
    if (auto* real = std::get_if<double>(&value)) *real = static_cast<float>(*real);
    if (auto* reals = std::get_if<std::vector<double>>(&value)) {
      for (double& real : *reals) real = static_cast<float>(real);
    }
    values_[index] = std::move(value);
  }

  const AttributeValue& value(size_t index) const { return values_[index]; }
  const std::vector<AttributeValue>& values() const { return values_; }
  const std::vector<Attribute>& declared() const { return *declared_; }

  bool flag(const char* name) const { return std::get<bool>(find(name)); }
  int64_t integer(const char* name) const { return std::get<int64_t>(find(name)); }
  double real(const char* name) const { return std::get<double>(find(name)); }
  const std::string& text(const char* name) const { return std::get<std::string>(find(name)); }
  const std::vector<int64_t>& integers(const char* name) const {
    return std::get<std::vector<int64_t>>(find(name));
  }
  const std::vector<double>& reals(const char* name) const {
    return std::get<std::vector<double>>(find(name));
  }

 private:
  const AttributeValue& find(const char* name) const {
    for (size_t i = 0; i < declared_->size(); ++i) {
      if ((*declared_)[i].name == name) return values_[i];
    }
    throw std::bad_variant_access();  // a typing error in the op's room; its first test shows it
  }

  const std::vector<Attribute>* declared_;
  std::vector<AttributeValue> values_;
};

}  // namespace myops
