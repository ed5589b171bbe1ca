// Reads what a caller asks for: the attributes, and the lists roi, scales and sizes.
#include <algorithm>

#include "geometry.h"

namespace myops::resize {
namespace {

template <class Enum>
Enum parse(const Attributes& attributes, const char* name, const std::vector<std::string>& names) {
  const auto place = std::find(names.begin(), names.end(), attributes.text(name));
  return static_cast<Enum>(place - names.begin());
}

List read_list(const ShapeContext& context, size_t input, const char* name) {
  List list;
  if (!context.has(input)) return list;
  const Dims& dims = context.dims(input);
  MYOPS_EXPECT(context, dims.size() == 1, name, str("rank ", dims.size()), "a list (rank 1)");
  list.values = context.values(input);
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
  list.values = read_values(tensor);
  list.length = static_cast<int64_t>(list.values->size());
  return list;
}

Dims known_dims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

}  // namespace

const std::vector<std::string>& mode_names() {
  static const std::vector<std::string> names{"nearest", "linear", "cubic"};
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
  Settings settings{};
  settings.mode = parse<Mode>(attributes, "mode", mode_names());
  settings.coordinates =
      parse<Coordinates>(attributes, "coordinate_transformation_mode", coordinate_names());
  settings.rounding = parse<Rounding>(attributes, "nearest_mode", rounding_names());
  settings.policy = parse<Policy>(attributes, "keep_aspect_ratio_policy", policy_names());
  settings.cubic_a = attributes.real("cubic_coeff_a");
  settings.extrapolation_value = attributes.real("extrapolation_value");
  settings.antialias = attributes.flag("antialias");
  settings.exclude_outside = attributes.flag("exclude_outside");
  settings.torch_arithmetic = attributes.flag("torch_arithmetic");
  return settings;
}

Request::Request(const ShapeContext& context, size_t x_input)
    : op(context.op_name()),
      settings(read_settings(context.attributes())),
      axes(context.attributes().integers("axes")),
      x(context.dims(x_input)),
      roi(read_list(context, x_input + 1, "roi")),
      scales(read_list(context, x_input + 2, "scales")),
      sizes(read_list(context, x_input + 3, "sizes")) {}

Request::Request(const KernelContext& context, size_t x_input)
    : op(context.op_name()),
      settings(read_settings(context.attributes())),
      axes(context.attributes().integers("axes")),
      x(known_dims(context.input(x_input).shape)),
      roi(read_list(context, x_input + 1)),
      scales(read_list(context, x_input + 2)),
      sizes(read_list(context, x_input + 3)) {}

}  // namespace myops::resize
