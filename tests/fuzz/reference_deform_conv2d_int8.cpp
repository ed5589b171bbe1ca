// deform_conv2d_int8: positions and weights of corners in float32, the rest in integers, by the
// formulas of csrc/ops/deform_conv2d_int8/blocking.h.
#include <algorithm>

#include "reference.h"

namespace fuzz {
namespace {

using namespace myops;

// The pixels around one position, and their weights as fractions of 15 bits.
struct Corners {
  bool hit;
  int64_t y, x;
  int64_t weights[4];
};

Corners corners_at(float y, float x, float mask, float limit, int64_t height, int64_t width) {
  Corners corners{
      y > -1 && y < static_cast<float>(height) && x > -1 && x < static_cast<float>(width),
      0,
      0,
      {}};
  if (!corners.hit) return corners;
  const float top = std::floor(y), left = std::floor(x);
  corners.y = static_cast<int64_t>(top);
  corners.x = static_cast<int64_t>(left);
  float factor = mask * (1 / limit);
  factor = std::isnan(factor) ? 0.0f : std::min(std::max(factor, -1.0f), 1.0f);
  factor *= 32768;
  const float fy = y - top, fx = x - left;
  const float weights[] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  for (int i = 0; i < 4; ++i) {
    const float fraction = std::nearbyint(weights[i] * factor);
    corners.weights[i] = static_cast<int64_t>(std::min(std::max(fraction, -32767.0f), 32767.0f));
  }
  return corners;
}

// The divisions of blocking.h round down, as shifts do.
int64_t shifted(int64_t value, int bits) { return value >> bits; }

// Factors whose products may be subnormal or infinite in float32.
bool is_extreme(double factor) {
  const double size = std::fabs(factor);
  return size != 0 && !(size > 1e-10 && size < 1e10);
}

Reference reference_deform_conv2d_int8(const std::string&, const Tensors& inputs,
                                       const Attributes& attributes) {
  const Tensor &X = inputs[0], &W = inputs[3], &offset = inputs[5], &mask = inputs[7];
  const std::vector<double> pixels = elements_of(X), filters = elements_of(W);
  const std::vector<double> scale = elements_of(inputs[1]), scales = elements_of(inputs[4]);
  const std::vector<double> moves = elements_of(offset);
  const std::vector<double> masks = mask.present ? elements_of(mask) : std::vector<double>();
  const std::vector<double> bias =
      inputs[6].present ? elements_of(inputs[6]) : std::vector<double>();
  const int64_t zero =
      inputs[2].present ? static_cast<int64_t>(elements_of(inputs[2])[0]) : int64_t{0};
  const int64_t low = (X.dtype == DType::Int8 ? -128 : 0) - zero;
  const float limit = static_cast<float>(attributes.real("mask_limit"));
  if (is_extreme(limit) || is_extreme(scale[0])) return std::nullopt;
  if (std::any_of(scales.begin(), scales.end(), is_extreme)) return std::nullopt;

  const auto setting = [&](const char* name, int64_t axis) {
    const std::vector<int64_t>& list = attributes.integers(name);
    return list.empty() ? int64_t{name[0] != 'p'} : list[static_cast<size_t>(axis)];
  };
  const int64_t batch = X.shape[0], channels = X.shape[1], height = X.shape[2], width = X.shape[3];
  const int64_t outputs = W.shape[0], rows = W.shape[2], columns = W.shape[3];
  const int64_t taps = rows * columns, out_rows = offset.shape[2], out_columns = offset.shape[3];
  const int64_t groups = attributes.integer("group");
  const int64_t fields = attributes.integer("offset_group");
  const int64_t depth = channels / groups, sharing = channels / fields;
  const int64_t places = out_rows * out_columns;
  if (static_cast<double>(batch * channels * taps * places) *
          static_cast<double>(4 + outputs / groups) >
      3e7) {
    return std::nullopt;
  }

  Expected result({batch, outputs, out_rows, out_columns});
  result.terms = 8;
  std::vector<int64_t> samples(static_cast<size_t>(channels * taps));
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t place = 0; place < places; ++place) {
      for (int64_t field = 0; field < fields; ++field) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          const auto moved = [&](int64_t axis) {
            const int64_t plane = (n * fields + field) * 2 * taps + 2 * tap + axis;
            return static_cast<float>(moves[static_cast<size_t>(plane * places + place)]);
          };
          const auto first = [&](int64_t axis, int64_t step, int64_t index) {
            return static_cast<float>(step * setting("dilations", axis) +
                                      index * setting("strides", axis) - setting("pads", axis));
          };
          const float y = first(0, tap / columns, place / out_columns) + moved(0);
          const float x = first(1, tap % columns, place % out_columns) + moved(1);
          const int64_t plane = (n * fields + field) * taps + tap;
          const float factor =
              masks.empty()
                  ? 1.0f
                  : static_cast<float>(masks[static_cast<size_t>(plane * places + place)]);
          const Corners at = corners_at(y, x, factor, limit, height, width);
          for (int64_t c = field * sharing; c < (field + 1) * sharing; ++c) {
            int64_t sum = 0;
            for (int corner = 0; at.hit && corner < 4; ++corner) {
              const int64_t row = at.y + corner / 2, column = at.x + corner % 2;
              if (row < 0 || row >= height || column < 0 || column >= width) continue;
              const int64_t pixel = ((n * channels + c) * height + row) * width + column;
              const int64_t value = static_cast<int64_t>(pixels[static_cast<size_t>(pixel)]) - zero;
              sum += shifted(128 * value * at.weights[corner] + 16384, 15);
            }
            samples[static_cast<size_t>(c * taps + tap)] =
                std::min(std::max(shifted(sum + 64, 7), low), low + 255);
          }
        }
      }
      for (int64_t o = 0; o < outputs; ++o) {
        const int64_t group = o / (outputs / groups);
        int64_t sum = 0;
        for (int64_t k = 0; k < depth * taps; ++k) {
          sum += samples[static_cast<size_t>(group * depth * taps + k)] *
                 static_cast<int64_t>(filters[static_cast<size_t>(o * depth * taps + k)]);
        }
        const double factor = scale[0] * static_cast<double>(limit) *
                              scales[scales.size() == 1 ? 0 : static_cast<size_t>(o)];
        Number& element = result.elements[static_cast<size_t>((n * outputs + o) * places + place)];
        element = Number(static_cast<double>(sum)) * Number(factor);
        if (!bias.empty()) element = element + Number(bias[static_cast<size_t>(o)]);
      }
    }
  }
  return std::vector<Expected>{result};
}

const AddReference added({"deform_conv2d_int8"}, reference_deform_conv2d_int8);

}  // namespace
}  // namespace fuzz
