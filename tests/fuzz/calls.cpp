#include "calls.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "plan.h"

namespace fuzz {
namespace {

using namespace myops;
using Attr = fake_ort::NodeAttribute;
using Floats = std::vector<float>;

std::map<std::string, Plan (*)(Bytes&, const Op&)>& plans() {
  static std::map<std::string, Plan (*)(Bytes&, const Op&)> known;
  return known;
}

Shape random_shape(Bytes& bytes, size_t most_axes, int64_t longest) {
  Shape shape(bytes.below(most_axes + 1));
  for (int64_t& length : shape) length = bytes.one_in(16) ? 0 : bytes.between(1, longest);
  return shape;
}

// An op without a plan: all inputs have one shape.
Plan plan_other(Bytes& bytes, const Op& op) {
  Plan plan;
  plan.inputs.assign(op.inputs.size(), {random_shape(bytes, 5, 7)});
  return plan;
}

Plan plan_anything(Bytes& bytes, const Op& op) {
  Plan plan;
  plan.facts = {"call: anything"};
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    plan.inputs.push_back({});
    if (bytes.one_in(8)) continue;
    Shape shape = random_shape(bytes, 6, 6);
    if (!shape.empty() && bytes.one_in(4)) shape[bytes.below(shape.size())] = bytes.integer();
    plan.inputs.back().shape = shape;
  }
  return plan;
}

Plan make_plan(Bytes& bytes, const Op& op) {
  if (bytes.one_in(16)) return plan_anything(bytes, op);
  const auto found = plans().find(op.name);
  return found != plans().end() ? found->second(bytes, op) : plan_other(bytes, op);
}

Attr any_attribute(Bytes& bytes) {
  const size_t length = bytes.one_in(32) ? (size_t{1} << 20) + 1 : bytes.below(7);
  switch (bytes.below(6)) {
    case 0:
      return {bytes.integer()};
    case 1:
      return {static_cast<float>(bytes.real())};
    case 2:
      return {bytes.one_in(32) ? std::string(length, 'x') : bytes.text()};
    case 3: {
      Ints list(length);
      for (size_t i = 0; i < length && i < 8; ++i) list[i] = bytes.integer();
      return {list};
    }
    case 4: {
      Floats list(length);
      for (size_t i = 0; i < length && i < 8; ++i) list[i] = static_cast<float>(bytes.real());
      return {list};
    }
    default:
      return {std::vector<std::string>{"a", "b"}};
  }
}

// Of the declared type, with a value that may be refused.
Attr fitting_attribute(Bytes& bytes, const Attribute& declared) {
  switch (declared.type()) {
    case AttributeType::Bool:
      return {bytes.between(0, 1)};
    case AttributeType::Int:
      return {bytes.between(0, 4)};
    case AttributeType::Float:
    case AttributeType::Double:
      return {static_cast<float>(bytes.real())};
    case AttributeType::Strings:
      return {std::vector<std::string>(bytes.below(3), bytes.text())};
    case AttributeType::String:
      if (declared.choices.empty()) return {bytes.text()};
      return {declared.choices[bytes.below(declared.choices.size())]};
    case AttributeType::Ints: {
      Ints list(bytes.below(6));
      for (int64_t& number : list) number = bytes.between(-1, 4);
      return {list};
    }
    case AttributeType::Floats:
    case AttributeType::Doubles:
      break;
  }
  return {Floats{static_cast<float>(bytes.real())}};
}

void set(std::vector<std::pair<std::string, Attr>>& attributes, const std::string& name,
         Attr value) {
  for (auto& [known, held] : attributes) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  attributes.push_back({name, std::move(value)});
}

void make_attributes(Bytes& bytes, const Op& op, Call& call) {
  for (const Attribute& declared : op.attributes) {
    const bool planned =
        std::any_of(call.attributes.begin(), call.attributes.end(),
                    [&](const auto& known) { return known.first == declared.name; });
    // A list that is not planned would be refused nearly always.
    const bool list = declared.type() == AttributeType::Ints;
    if (!planned && bytes.one_in(list ? 128 : 16)) {
      set(call.attributes, declared.name, fitting_attribute(bytes, declared));
    }
  }
  if (!op.attributes.empty() && bytes.one_in(24)) {
    const std::string& name = op.attributes[bytes.below(op.attributes.size())].name;
    set(call.attributes, name, any_attribute(bytes));
  }
}

// Limits the memory of a test: a length is reduced until the tensor is small, or an axis becomes 0
// so that the absurd length can stay.
void bound(Bytes& bytes, Shape& shape, int64_t most) {
  for (int64_t& length : shape) length = std::max<int64_t>(length, 0);
  const auto too_large = [&] {
    double count = 1;
    for (const int64_t length : shape) count *= static_cast<double>(length);
    return count > static_cast<double>(most);
  };
  while (too_large()) {
    const auto longest = std::max_element(shape.begin(), shape.end());
    if (shape.size() > 1 && bytes.one_in(2)) {
      shape[(static_cast<size_t>(longest - shape.begin()) + 1) % shape.size()] = 0;
    } else {
      *longest = bytes.between(1, 64);
    }
  }
}

template <class T>
T element_of(double value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T>) {
    const double low = static_cast<double>(std::numeric_limits<T>::min());
    const double high = std::is_same_v<T, int64_t>
                            ? 9223372036854774784.0
                            : static_cast<double>(std::numeric_limits<T>::max());
    return static_cast<T>(value >= low && value <= high ? value : low);
  } else {
    return static_cast<T>(value);
  }
}

std::vector<uint8_t> elements_of(DType dtype, const std::vector<double>& values) {
  std::vector<uint8_t> elements(values.size() * dtype_size(dtype));
  // Our ops refuse the other dtypes before they read an element.
  if (dtype > DType::Int64 && dtype != DType::Int8) return elements;
  dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t, int8_t>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      const T element = element_of<T>(values[i]);
      std::memcpy(elements.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return elements;
}

Argument make_argument(Bytes& bytes, DType dtype, const Plan::Item& item, bool wild) {
  const Shape& shape = *item.shape;
  std::vector<double> numbers(static_cast<size_t>(element_count(shape)));
  const bool integers = dtype == DType::UInt8 || dtype == DType::Int8;
  const double drawn = bytes.one_in(4) ? static_cast<double>(bytes.between(1, 9)) : 1;
  const double range = item.range > 0 ? static_cast<double>(item.range) : drawn;
  for (double& number : numbers) {
    const uint32_t random = bytes.random();
    if (item.fill == Plan::Fill::Grid) {
      const auto steps = static_cast<int64_t>(16 * range) + 1;
      number = static_cast<double>(static_cast<int64_t>(random % steps) - steps / 2) / 8;
    } else if (item.fill == Plan::Fill::Any) {
      number = (static_cast<double>(random >> 8) / 8388608.0 - 1) * range * 0.987;
      if (integers) number = static_cast<double>(random >> 24) - (dtype == DType::Int8 ? 128 : 0);
      // A position that is far from the others.
      if (item.range > 0 && (random & 63) == 0) number *= 20;
    }
    if (wild && (bytes.random() & 3) == 0) number = bytes.real();
  }
  for (size_t i = 0; item.values && i < std::min(numbers.size(), item.values->size()); ++i) {
    numbers[i] = bytes.one_in(200) ? bytes.real() : (*item.values)[i];
  }
  return {dtype, shape, elements_of(dtype, numbers)};
}

// All of them, or those whose names begin with MYOPS_FUZZ_OP.
std::vector<const Op*> chosen_ops() {
  const char* given = std::getenv("MYOPS_FUZZ_OP");
  const std::string prefix = given == nullptr ? "" : given;
  std::vector<const Op*> ops;
  for (const Op& op : all_ops()) {
    if (op.name.rfind(prefix, 0) == 0) ops.push_back(&op);
  }
  if (!ops.empty()) return ops;
  std::fprintf(stderr, "MYOPS_FUZZ_OP: got \"%s\", expected how the name of an op begins\n", given);
  std::exit(2);
}

}  // namespace

AddPlan::AddPlan(std::initializer_list<const char*> ops, Plan (*make)(Bytes&, const Op&)) {
  for (const char* op : ops) plans()[op] = make;
}

Call make_call(Bytes& bytes) {
  static const std::vector<const Op*> ops = chosen_ops();
  const Op& op = *ops[bytes.below(ops.size())];
  Plan plan = make_plan(bytes, op);
  plan.inputs.resize(op.inputs.size());
  Call call{&op, {}, std::move(plan.attributes), std::move(plan.facts)};
  make_attributes(bytes, op, call);
  std::vector<DType> chosen;
  for (const TypeParameter& type : op.types) {
    chosen.push_back(type.dtypes[bytes.below(type.dtypes.size())]);
  }
  call.facts.push_back(std::string("dtype: ") + dtype_name(chosen[0]));
  const bool corrupts = bytes.one_in(16), wild = bytes.one_in(8);
  if (wild) call.facts.push_back("numbers: NaN, infinite, huge");
  if (corrupts) call.facts.push_back("call: a corrupted input");
  const size_t corrupted_input = bytes.below(op.inputs.size());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Plan::Item& item = plan.inputs[i];
    std::optional<Shape>& shape = item.shape;
    if (corrupts && i == corrupted_input) {
      if (!shape || bytes.one_in(4)) {
        shape = shape ? std::nullopt : std::optional(random_shape(bytes, 4, 5));
      } else if (!shape->empty()) {
        (*shape)[bytes.below(shape->size())] = bytes.integer();
      }
      if (shape) bound(bytes, *shape, 1 << 11);
    }
    if (!shape) {
      call.inputs.push_back(std::nullopt);
      continue;
    }
    bound(bytes, *shape, plan.most_elements);
    size_t type = 0;
    while (op.types[type].name != op.inputs[i].type) ++type;
    const DType dtype =
        bytes.one_in(255) ? static_cast<DType>(bytes.below(kDTypeCount - 1)) : chosen[type];
    call.inputs.push_back(make_argument(bytes, dtype, item, wild && bytes.one_in(2)));
  }
  return call;
}

std::string describe(const Call& call) {
  std::string all;
  const auto list = [](const auto& numbers) {
    std::string text;
    for (size_t i = 0; i < numbers.size() && i < 8; ++i) text += str(i == 0 ? "" : " ", numbers[i]);
    return "[" + text + "]";
  };
  for (const std::optional<Argument>& argument : call.inputs) {
    all += all.empty() ? "" : ", ";
    all += argument ? str(dtype_name(argument->dtype), " ", list(argument->shape)) : "none";
  }
  for (const auto& [name, attribute] : call.attributes) {
    all += "; " + name + "=";
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, float>) {
            all += str(value);
          } else if constexpr (std::is_same_v<T, std::string>) {
            all += quoted(value);
          } else if constexpr (std::is_same_v<T, myops::ort::OtherKind>) {
            all += str("kind ", static_cast<int>(value));
          } else if constexpr (std::is_same_v<T, myops::ort::Value>) {
            all += "a tensor";
          } else {
            all += list(value);
          }
        },
        attribute.value);
  }
  return call.op->name + "(" + all + ")";
}

}  // namespace fuzz
