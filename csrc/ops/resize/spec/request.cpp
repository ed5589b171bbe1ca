// Reads the arguments: the attributes, and the lists roi, scales and sizes.
#include <algorithm>

#include "geometry.h"

namespace myops::resize {
namespace {

// Indices of the attributes among those declared, which are the same in both ops. A search by name
// in each call would take longer than a small image.
struct AttributeIndices {
  explicit AttributeIndices(const Attributes& attributes) : declared(attributes.declared()) {}

  size_t of(const char* name) const {
    size_t place = 0;
    while (declared[place].name != name) ++place;
    return place;
  }

  const std::vector<Attribute>& declared;
  const size_t mode = of("mode"), coordinates = of("coordinate_transformation_mode"),
               rounding = of("nearest_mode"), policy = of("keep_aspect_ratio_policy"),
               cubic_a = of("cubic_coeff_a"), extrapolation_value = of("extrapolation_value"),
               antialias = of("antialias"), exclude_outside = of("exclude_outside"),
               torch_arithmetic = of("torch_arithmetic"), axes = of("axes");
};

const AttributeIndices& places_of(const Attributes& attributes) {
  static const AttributeIndices places(attributes);
  return places;
}

const std::vector<int64_t>& read_axes(const Attributes& attributes) {
  return std::get<std::vector<int64_t>>(attributes.value(places_of(attributes).axes));
}

template <class Enum>
Enum parse(const AttributeValue& value, const std::vector<std::string>& names) {
  const auto place = std::find(names.begin(), names.end(), std::get<std::string>(value));
  return static_cast<Enum>(place - names.begin());
}

List read_list(const ShapeContext& context, size_t input, const char* name) {
  List list;
  if (!context.has(input)) return list;
  const Dims& dims = context.dims(input);
  MYOPS_EXPECT(context, dims.size() == 1, name, str("rank ", dims.size()), "a list (rank 1)");
  if (context.values(input)) list.values.emplace(*context.values(input));
  list.length = list.values ? static_cast<int64_t>(list.values->size()) : dims[0].value;
  list.certain = list.length >= 0;
  list.present = list.length != 0;
  return list;
}

List read_list(const KernelContext& context, size_t input) {
  List list;
  const Tensor& tensor = context.input(input);
  if (!tensor.present || tensor.elements() == 0) return list;
  list.present = true;
  list.values.emplace(read_values(tensor));
  list.length = static_cast<int64_t>(list.values->size());
  return list;
}

Dims known_dims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

}  // namespace

const std::vector<std::string>& mode_names() {
  static const std::vector<std::string> names{"nearest", "linear", "cubic", "area"};
  return names;
}

const std::vector<std::string>& coordinate_names() {
  static const std::vector<std::string> names{"half_pixel",         "half_pixel_symmetric",
                                              "pytorch_half_pixel", "align_corners",
                                              "asymmetric",         "tf_crop_and_resize"};
  return names;
}

const std::vector<std::string>& rounding_names() {
  static const std::vector<std::string> names{"round_prefer_floor", "round_prefer_ceil", "floor",
                                              "ceil"};
  return names;
}

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> names{"stretch", "not_larger", "not_smaller"};
  return names;
}

Settings read_settings(const Attributes& attributes) {
  const AttributeIndices& places = places_of(attributes);
  const auto value = [&](size_t place) -> const AttributeValue& { return attributes.value(place); };
  Settings settings{};
  settings.mode = parse<Mode>(value(places.mode), mode_names());
  settings.coordinates = parse<Coordinates>(value(places.coordinates), coordinate_names());
  settings.rounding = parse<Rounding>(value(places.rounding), rounding_names());
  settings.policy = parse<Policy>(value(places.policy), policy_names());
  settings.cubic_a = std::get<double>(value(places.cubic_a));
  settings.extrapolation_value = std::get<double>(value(places.extrapolation_value));
  settings.antialias = std::get<bool>(value(places.antialias));
  settings.exclude_outside = std::get<bool>(value(places.exclude_outside));
  settings.torch_arithmetic = std::get<bool>(value(places.torch_arithmetic));
  return settings;
}

Request::Request(const ShapeContext& context, size_t x_input)
    : op(context.op_name()),
      settings(read_settings(context.attributes())),
      axes(read_axes(context.attributes())),
      x(context.dims(x_input)),
      roi(read_list(context, x_input + 1, "roi")),
      scales(read_list(context, x_input + 2, "scales")),
      sizes(read_list(context, x_input + 3, "sizes")) {}

Request::Request(const KernelContext& context, size_t x_input)
    : op(context.op_name()),
      settings(read_settings(context.attributes())),
      axes(read_axes(context.attributes())),
      x(known_dims(context.input(x_input).shape)),
      roi(read_list(context, x_input + 1)),
      scales(read_list(context, x_input + 2)),
      sizes(read_list(context, x_input + 3)) {}

}  // namespace myops::resize
