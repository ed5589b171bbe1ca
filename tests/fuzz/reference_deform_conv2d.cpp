// deform_conv2d and its derivatives. For output pixel (u, v) of an image, tap (i, j) of an offset
// group and a channel of it, with W the filters and G the gradient of Y:
//   y = u * stride - pad + i * dilation + offset_y, x alike; rounded to the type of the arithmetic
//   S = X at (y, x), bilinear, 0 outside of X;  0 and without derivatives unless -1 < y < H,
//       -1 < x < W;  at an integer the derivative is the one from the right
//   A = m S;  Y(o) = B(o) + sum W(o) A
// With T = sum_o W(o) G(o), the gradients are those of sum T A. With (X', W', y', x', m') a
// direction, T' = sum_o W'(o) G(o) and A' the derivative of A along it, the gradients of the
// gradients are those of sum T' A + T A'.
#include <algorithm>
#include <cmath>

#include "myops/isa/bfloat16_products.h"
#include "reference.h"

namespace fuzz {
namespace {

using namespace myops;

// A tensor of rank 4 as numbers.
struct Grid {
  Shape shape = {0, 0, 0, 0};
  std::vector<double> values;
  bool present = false;

  explicit Grid(const Tensor& tensor) : present(tensor.present) {
    if (!present) return;
    shape = tensor.shape;
    values = elements_of(tensor);
  }
  size_t at(int64_t i, int64_t j, int64_t k, int64_t l) const {
    return static_cast<size_t>(((i * shape[1] + j) * shape[2] + k) * shape[3] + l);
  }
  // Whether most numbers are there several times, as in a tensor that was expanded.
  bool repeats() const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const auto kinds = std::unique(sorted.begin(), sorted.end()) - sorted.begin();
    return 2 * static_cast<size_t>(kinds) <= sorted.size();
  }
  // The largest magnitude of those that are finite.
  double largest() const {
    double most = 0;
    for (const double value : values) {
      if (std::isfinite(value)) most = std::max(most, std::fabs(value));
    }
    return most;
  }
  double operator()(int64_t i, int64_t j, int64_t k, int64_t l) const {
    return present ? values[at(i, j, k, l)] : 0;
  }
};

int64_t entry(const Attributes& attributes, const char* name, size_t index, int64_t otherwise) {
  const std::vector<int64_t>& list = attributes.integers(name);
  return list.empty() ? otherwise : list[index];
}

// One sample: the corner from which its cell begins, and where in the cell it lies.
struct Sample {
  bool hits;
  int64_t top, left;
  double y, x;

  Sample(double at_y, double at_x, int64_t height, int64_t width)
      : hits(at_y > -1 && at_y < static_cast<double>(height) && at_x > -1 &&
             at_x < static_cast<double>(width)),
        top(hits ? static_cast<int64_t>(std::floor(at_y)) : 0),
        left(hits ? static_cast<int64_t>(std::floor(at_x)) : 0),
        y(hits ? at_y - static_cast<double>(top) : 0),
        x(hits ? at_x - static_cast<double>(left) : 0) {}

  // The weight of corner (down, right), and its derivatives.
  Number weight(int down, int right) const {
    return Number((down ? y : 1 - y) * (right ? x : 1 - x));
  }
  Number along_y(int down, int right) const {
    return Number((down ? 1 : -1) * (right ? x : 1 - x));
  }
  Number along_x(int down, int right) const {
    return Number((right ? 1 : -1) * (down ? y : 1 - y));
  }
  Number mixed(int down, int right) const { return Number(down == right ? 1 : -1); }

  // The sum of the corners of a channel by such weights.
  template <class Weight>
  Number sum(const Grid& X, int64_t image, int64_t channel, const Weight& weight_of) const {
    Number total;
    for_each_corner(X, [&](int64_t row, int64_t column, int down, int right) {
      total += weight_of(down, right) * Number(X(image, channel, row, column));
    });
    return total;
  }
  template <class Body>
  void for_each_corner(const Grid& X, const Body& body) const {
    for (const int down : {0, 1}) {
      for (const int right : {0, 1}) {
        const int64_t row = top + down, column = left + right;
        if (!hits || row < 0 || row >= X.shape[2] || column < 0 || column >= X.shape[3]) continue;
        body(row, column, down, right);
      }
    }
  }
};

struct Problem {
  const Attributes& attributes;
  const Grid &X, &W, &offset, &mask;
  bool narrow;  // the arithmetic is float32
  int64_t groups = attributes.integer("group"), fields = attributes.integer("offset_group");
  int64_t out_height = offset.shape[2], out_width = offset.shape[3];
  int64_t taps = W.shape[2] * W.shape[3];

  double position(int64_t pixel, int64_t tap, size_t axis, double moved) const {
    const int64_t base = pixel * entry(attributes, "strides", axis, 1) -
                         entry(attributes, "pads", axis, 0) +
                         tap * entry(attributes, "dilations", axis, 1);
    const double exact = static_cast<double>(base) + moved;
    return narrow ? static_cast<double>(static_cast<float>(exact)) : exact;
  }

  // Calls body(image, u, v, plane, i, j, sample, channels): for every sample, `plane` that of its
  // mask, and the channels from `first` on that share it.
  template <class Body>
  void for_each_sample(const Body& body) const {
    const int64_t kernel_width = W.shape[3];
    for (int64_t image = 0; image < X.shape[0]; ++image) {
      for (int64_t plane = 0; plane < fields * taps; ++plane) {
        const int64_t i = plane % taps / kernel_width, j = plane % kernel_width;
        for (int64_t u = 0; u < out_height; ++u) {
          for (int64_t v = 0; v < out_width; ++v) {
            const Sample sample(position(u, i, 0, offset(image, 2 * plane, u, v)),
                                position(v, j, 1, offset(image, 2 * plane + 1, u, v)), X.shape[2],
                                X.shape[3]);
            body(image, u, v, plane, i, j, sample);
          }
        }
      }
    }
  }
  // Calls body(channel, channel within its group, first output, end of the outputs) for the
  // channels that share a plane of the mask.
  template <class Body>
  void for_each_channel(int64_t plane, const Body& body) const {
    const int64_t each = X.shape[1] / fields, first = plane / taps * each;
    const int64_t inputs = X.shape[1] / groups, outputs = W.shape[0] / groups;
    for (int64_t c = first; c < first + each; ++c) {
      const int64_t group = c / inputs;
      body(c, c % inputs, group * outputs, (group + 1) * outputs);
    }
  }
  Number mask_of(int64_t image, int64_t plane, int64_t u, int64_t v) const {
    return mask.present ? Number(mask(image, plane, u, v)) : Number(1);
  }
  double terms() const {  // of the longest sum
    const auto outputs = static_cast<double>(W.shape[0] / groups);
    const auto channels = static_cast<double>(X.shape[1] / std::min(groups, fields));
    const auto samples = static_cast<double>(X.shape[0] * out_height * out_width);
    const auto count = std::max(samples * static_cast<double>(taps),
                                channels * outputs * static_cast<double>(taps));
    // Where both factors repeat, all products are rounded in the same direction.
    if (X.repeats() && W.repeats()) return 16 + count;
    return 16 + 2 * std::sqrt(count);
  }
};

Expected forward(const Problem& problem, const Tensor& bias) {
  const Grid &X = problem.X, &W = problem.W;
  Expected Y({X.shape[0], W.shape[0], problem.out_height, problem.out_width});
  const int64_t pixels = problem.out_height * problem.out_width, outputs = W.shape[0];
  const auto at = [&](int64_t image, int64_t o, int64_t u, int64_t v) -> Number& {
    return Y
        .elements[static_cast<size_t>((image * outputs + o) * pixels + u * problem.out_width + v)];
  };
  if (bias.present) {
    const std::vector<double> values = elements_of(bias);
    for (size_t i = 0; i < Y.elements.size(); ++i) {
      Y.elements[i] = Number(values[i / static_cast<size_t>(pixels) % values.size()]);
    }
  }
  problem.for_each_sample([&](int64_t image, int64_t u, int64_t v, int64_t plane, int64_t i,
                              int64_t j, const Sample& sample) {
    problem.for_each_channel(plane, [&](int64_t c, int64_t own, int64_t first, int64_t end) {
      const Number S = sample.sum(X, image, c, [&](int d, int r) { return sample.weight(d, r); });
      const Number A = problem.mask_of(image, plane, u, v) * S;
      for (int64_t o = first; o < end; ++o) at(image, o, u, v) += Number(W(o, own, i, j)) * A;
    });
  });
  return Y;
}

// Of sum T' A + T A'. The plain backward has T in the place of T', and no A'.
struct Direction {
  const Grid &X, &W, &offset, &mask;
  bool twice;
};

std::vector<Expected> backward(const Problem& problem, const Grid& G, const Direction& move,
                               const std::vector<bool>& wanted) {
  const Grid &X = problem.X, &W = problem.W;
  Expected to_G(G.shape, wanted[0]), to_X(X.shape, wanted[1]), to_W(W.shape, wanted[2]),
      to_offset(problem.offset.shape, wanted[3]),
      to_mask(problem.mask.shape, wanted[4] && problem.mask.present);
  problem.for_each_sample([&](int64_t image, int64_t u, int64_t v, int64_t plane, int64_t i,
                              int64_t j, const Sample& sample) {
    const Number m = problem.mask_of(image, plane, u, v);
    const Number y1 = move.offset(image, 2 * plane, u, v);
    const Number x1 = move.offset(image, 2 * plane + 1, u, v);
    const Number m1 = move.mask(image, plane, u, v);
    const auto w = [&](int d, int r) { return sample.weight(d, r); };
    const auto wy = [&](int d, int r) { return sample.along_y(d, r); };
    const auto wx = [&](int d, int r) { return sample.along_x(d, r); };
    const auto wxy = [&](int d, int r) { return sample.mixed(d, r); };
    problem.for_each_channel(plane, [&](int64_t c, int64_t own, int64_t first, int64_t end) {
      Number T, T1;
      for (int64_t o = first; o < end; ++o) {
        const Number g(G(image, o, u, v));
        T += Number(W(o, own, i, j)) * g;
        T1 += Number(move.W(o, own, i, j)) * g;
      }
      if (!move.twice) T1 = T, T = Number();
      const auto of = [&](const Grid& grid, const auto& weight) {
        return grid.present ? sample.sum(grid, image, c, weight) : Number();
      };
      const Number S = of(X, w), Sy = of(X, wy), Sx = of(X, wx), Sxy = of(X, wxy);
      const Number S1 = of(move.X, w), S1y = of(move.X, wy), S1x = of(move.X, wx);
      const Number A = m * S;
      const Number A1 = m * S1 + m1 * S + m * (y1 * Sy + x1 * Sx);
      for (int64_t o = first; o < end; ++o) {
        const Number g(G(image, o, u, v)), W0(W(o, own, i, j)), W1(move.W(o, own, i, j));
        if (wanted[0]) to_G.elements[G.at(image, o, u, v)] += W1 * A + W0 * A1;
        if (wanted[2]) to_W.elements[W.at(o, own, i, j)] += g * (move.twice ? A1 : A);
      }
      if (!sample.hits) return;
      if (wanted[1]) {
        sample.for_each_corner(X, [&](int64_t row, int64_t column, int d, int r) {
          to_X.elements[X.at(image, c, row, column)] +=
              T1 * m * w(d, r) + T * (m1 * w(d, r) + m * (y1 * wy(d, r) + x1 * wx(d, r)));
        });
      }
      if (wanted[3]) {
        to_offset.elements[problem.offset.at(image, 2 * plane, u, v)] +=
            T1 * m * Sy + T * (m * S1y + m1 * Sy + m * x1 * Sxy);
        to_offset.elements[problem.offset.at(image, 2 * plane + 1, u, v)] +=
            T1 * m * Sx + T * (m * S1x + m1 * Sx + m * y1 * Sxy);
      }
      if (!to_mask.elements.empty()) {
        to_mask.elements[problem.mask.at(image, plane, u, v)] +=
            T1 * S + T * (S1 + y1 * Sy + x1 * Sx);
      }
    });
  });
  if (move.twice) return {to_G, to_X, to_W, to_offset, to_mask};
  return {to_X, to_W, to_offset, to_mask};
}

}  // namespace

namespace {

Reference reference_deform_conv2d(const std::string& op, const Tensors& inputs,
                                  const Attributes& attributes) {
  const bool plain = op == "deform_conv2d", twice = op == "deform_conv2d_backward_backward";
  const size_t first = plain ? 0 : 1;  // X
  const Tensor none;
  const Grid X(inputs[first]), W(inputs[first + 1]), offset(inputs[first + 2]);
  const Grid mask(inputs[4]);
  const Problem problem{attributes, X, W, offset, mask, inputs[first].dtype != DType::Float64};
  // In products; a hostile call may ask for many.
  const double work = static_cast<double>(offset.values.size()) *
                      static_cast<double>(X.shape[1] / problem.fields) *
                      static_cast<double>(4 + W.shape[0] / problem.groups) * (plain ? 1 : 4);
  if (work > 3e7) return std::nullopt;
  std::vector<Expected> all;
  if (plain) {
    all = {forward(problem, inputs[3])};
  } else {
    std::vector<bool> wanted(5, true);
    const std::vector<int64_t>& needs = attributes.integers("needs");
    for (size_t i = 0; i < needs.size(); ++i) wanted[i + (twice ? 0 : 1)] = needs[i] != 0;
    if (!twice) wanted[0] = false;
    const Grid G(inputs[0]);
    const Grid X1(twice ? inputs[5] : none), W1(twice ? inputs[6] : none),
        offset1(twice ? inputs[7] : none), mask1(twice ? inputs[8] : none);
    all = backward(problem, G, {X1, W1, offset1, mask1, twice}, wanted);
  }
  for (Expected& one : all) one.terms = problem.terms();
  if (plain && inputs[first].dtype == DType::BFloat16 && bfloat16_products_pay()) {
    // Samples are rounded to bfloat16, and what is below the smallest normal number counts as 0.
    Expected& Y = all[0];
    Y.terms += rounding_of(DType::BFloat16) / arithmetic_of(DType::BFloat16);
    const double samples = X.largest() * (mask.present ? mask.largest() : 1);
    Y.slack +=
        1.2e-38 * static_cast<double>(W.shape[1] * problem.taps) * (2 + W.largest() + samples);
  }
  return all;
}

const AddReference added({"deform_conv2d", "deform_conv2d_backward",
                          "deform_conv2d_backward_backward"},
                         reference_deform_conv2d);

}  // namespace
}  // namespace fuzz
