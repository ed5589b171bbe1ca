// resize and its transpose: the text of ONNX Resize-19, and of torch where torch_arithmetic is set.
// Every axis is a table of taps; the tables are applied one axis after the other.
#include <algorithm>

#include "reference_resize_table.h"

namespace fuzz {
namespace {

using namespace myops;

// The scale that all listed axes have where the aspect ratio is kept.
double common_scale(const Shape& x, const std::vector<int64_t>& axes,
                    const std::vector<double>& sizes, const std::string& policy, bool torch) {
  double chosen = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t input = x[static_cast<size_t>(axes[i])];
    if (input == 0) continue;
    const double scale =
        torch ? sizes[i] / static_cast<double>(input)
              : static_cast<double>(static_cast<float>(sizes[i]) / static_cast<float>(input));
    const bool better = policy == "not_larger" ? scale < chosen : scale > chosen;
    if (chosen == 0 || better) chosen = scale;
  }
  return chosen == 0 ? 1 : chosen;
}

// What is there after some of the axes.
struct Numbers {
  Shape shape;
  std::vector<Number> elements;
};

// Applies a table along an axis; its transpose where `backward`.
Numbers apply(const Numbers& from, size_t axis, const Table& table, bool backward) {
  Numbers to{from.shape, {}};
  to.shape[axis] = backward ? table.input : table.output;
  to.elements.resize(static_cast<size_t>(element_count(to.shape)));
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= from.shape[i];
  for (size_t i = axis + 1; i < from.shape.size(); ++i) inner *= from.shape[i];
  for (int64_t block = 0; block < outer; ++block) {
    for (int64_t o = 0; o < table.output; ++o) {
      for (const Tap& tap : table.taps[static_cast<size_t>(o)]) {
        const Number weight(static_cast<double>(tap.weight));
        const int64_t out = backward ? tap.index : o, in = backward ? o : tap.index;
        const Number* source = from.elements.data() + (block * from.shape[axis] + in) * inner;
        Number* target = to.elements.data() + (block * to.shape[axis] + out) * inner;
        for (int64_t i = 0; i < inner; ++i) target[i] += weight * source[i];
      }
    }
  }
  return to;
}

// The sums of magnitudes of the weights of an output, or of an input, the largest; and how many
// outputs an input is part of at most.
struct Norms {
  Real forward = 0, backward = 0, outputs = 0;

  explicit Norms(const Table& table) {
    std::vector<Real> of(static_cast<size_t>(table.input)), count(of.size());
    for (const std::vector<Tap>& taps : table.taps) {
      Real sum = 0;
      for (const Tap& tap : taps) {
        sum += std::fabs(tap.weight);
        of[static_cast<size_t>(tap.index)] += std::fabs(tap.weight);
        count[static_cast<size_t>(tap.index)] += 1;
      }
      forward = std::max(forward, sum);
    }
    for (size_t i = 0; i < of.size(); ++i) {
      backward = std::max(backward, of[i]);
      outputs = std::max(outputs, count[i]);
    }
  }
};

std::vector<double> list(const Tensor& tensor) {
  return tensor.present ? elements_of(tensor) : std::vector<double>{};
}

// The axes as the lists give them.
std::vector<ResizedAxis> axes_of(const ResizeSettings& settings, const Tensors& inputs,
                                 size_t x_input, const std::vector<int64_t>& given) {
  const Shape& x = inputs[x_input].shape;
  const auto rank = static_cast<int64_t>(x.size());
  const std::vector<double> roi = list(inputs[x_input + 1]), scales = list(inputs[x_input + 2]),
                            sizes = list(inputs[x_input + 3]);
  std::vector<ResizedAxis> axes;
  for (const int64_t length : x) axes.push_back({length, length, 1});
  std::vector<int64_t> listed = given;
  for (int64_t axis = 0; given.empty() && axis < rank; ++axis) listed.push_back(axis);
  for (int64_t& axis : listed) axis += axis < 0 ? rank : 0;
  for (size_t i = 0; i < listed.size(); ++i) {
    ResizedAxis& axis = axes[static_cast<size_t>(listed[i])];
    if (!scales.empty()) {
      axis.scale = settings.torch ? scales[i] : static_cast<double>(static_cast<float>(scales[i]));
      axis.output = scaled_length(axis.input, scales[i], settings.torch);
    } else {
      axis.output = resized_length(x, listed, sizes, i, settings.policy, settings.torch);
      axis.scale = settings.policy == "stretch"
                       ? 0
                       : common_scale(x, listed, sizes, settings.policy, settings.torch);
    }
    if (!settings.crops()) continue;
    axis.start = roi[i];
    axis.end = roi[listed.size() + i];
  }
  if (rank == 4) {
    axes[2].small_picture = axes[3].small_picture = axes[2].output + axes[3].output <= 128;
  }
  return axes;
}

// Calls body(element, index of each axis).
template <class Body>
void for_each_element(const Shape& shape, const Body& body) {
  Shape index(shape.size(), 0);
  const auto count = static_cast<size_t>(element_count(shape));
  for (size_t element = 0; element < count; ++element) {
    body(element, index);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
}

}  // namespace

int64_t scaled_length(int64_t input, double scale, bool torch) {
  if (scale == 1 || input == 0) return input;
  if (torch) return static_cast<int64_t>(static_cast<double>(input) * scale);
  const float product = static_cast<float>(input) * static_cast<float>(scale);
  return static_cast<int64_t>(product);
}

int64_t resized_length(const Shape& x, const std::vector<int64_t>& axes,
                       const std::vector<double>& sizes, size_t place, const std::string& policy,
                       bool torch) {
  const int64_t input = x[static_cast<size_t>(axes[place])];
  if (policy == "stretch") return static_cast<int64_t>(sizes[place]);
  if (input == 0) return 0;
  const double scale = common_scale(x, axes, sizes, policy, torch);
  if (torch) return static_cast<int64_t>(std::round(static_cast<double>(input) * scale));
  const float product = static_cast<float>(input) * static_cast<float>(scale);
  return static_cast<int64_t>(std::round(product));
}

namespace {

Reference reference_resize(const std::string& op, const Tensors& inputs,
                           const Attributes& attributes) {
  const bool backward = op != "resize";
  const size_t x_input = backward ? 1 : 0;
  const ResizeSettings settings(attributes);
  if (std::fabs(settings.a) > 1000) return std::nullopt;  // too large on the way, as huge numbers
  const std::vector<ResizedAxis> axes =
      axes_of(settings, inputs, x_input, attributes.integers("axes"));
  const Tensor& given = inputs[0];
  const Real u = arithmetic_of(given.dtype);
  Numbers numbers{given.shape, {}};
  double largest = 0;
  bool finite = true;
  for (const double value : elements_of(given)) {
    numbers.elements.emplace_back(value);
    finite = finite && std::isfinite(value);
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  Shape result(axes.size());
  std::vector<Table> tables;
  double work = static_cast<double>(given.elements());
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    // A hostile call may ask for more taps than there is memory, or have an axis of absurd length
    // in a tensor without elements.
    if (axes[axis].input > 2'000'000) return std::nullopt;
    const Real ratio = axes[axis].scale != 0
                           ? axes[axis].scale
                           : static_cast<Real>(axes[axis].output) /
                                 static_cast<Real>(std::max<int64_t>(axes[axis].input, 1));
    const Real most = 4 * (settings.antialias && ratio > 0 ? std::max<Real>(1 / ratio, 1) : 1) + 4;
    if (most * static_cast<Real>(axes[axis].output) > 2e6L) return std::nullopt;
    tables.push_back(make_table(settings, axes[axis], u, finite));
    result[axis] = backward ? axes[axis].input : axes[axis].output;
    size_t taps = 0;
    for (const std::vector<Tap>& of : tables.back().taps) taps += of.size();
    const double longer = static_cast<double>(std::max(taps, size_t{1})) /
                          static_cast<double>(std::max<int64_t>(given.shape[axis], 1));
    work *= std::max(longer, 1.0);
  }
  if (work > 2e7) return std::nullopt;
  std::vector<Norms> norms(tables.begin(), tables.end());
  Real slack = 0;
  double terms = 16;
  bool copies = true;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    copies = copies && tables[axis].copies;
    if (!tables[axis].copies) numbers = apply(numbers, axis, tables[axis], backward);
    Real own = tables[axis].error * (backward ? norms[axis].outputs + 2 : 1);
    for (size_t other = 0; other < axes.size(); ++other) {
      if (other != axis) own *= backward ? norms[other].backward : norms[other].forward;
    }
    slack += own;
    terms += static_cast<double>(norms[axis].outputs);
  }

  Expected expected(result);
  expected.elements = std::move(numbers.elements);
  expected.unsure.resize(expected.elements.size());
  expected.slack = static_cast<double>(slack) * largest;
  expected.terms = terms;
  expected.copies = !backward && (copies || settings.mode == "nearest");
  for_each_element(result, [&](size_t element, const Shape& index) {
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      const Table& table = tables[axis];
      const auto at = static_cast<size_t>(index[axis]);
      expected.unsure[element] |= backward ? table.unsure_inputs[at] : table.unsure[at];
      if (!backward && table.outside[at]) {
        expected.elements[element] = Number(static_cast<double>(settings.extrapolation));
      }
    }
  });
  return std::vector<Expected>{std::move(expected)};
}

const AddReference added({"resize", "resize_backward"}, reference_resize);

}  // namespace
}  // namespace fuzz
