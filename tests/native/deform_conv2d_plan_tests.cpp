// The division of deform_conv2d's gradients into tiles (cell_plan.h), for random convolutions: the
// cells of a tile fit its table if offsets are up to 8 pixels. Otherwise tiles are computed in
// parts, with the same results, so that no other test fails, in several times as long.
#include <random>

#include "checking.h"
#include "deform_conv2d/conv_shape.h"
#include "myops/op.h"
#include "resize_reference.h"
// Shared code comes before the instruction set.
#include "myops/isa/portable.h"
// Uses it.
#include "deform_conv2d/cell_plan.h"

namespace {

using namespace myops;

struct Drawn {
  int64_t channels, groups, offset_groups, height, width, kernel[2], strides[2], dilations[2];
  int64_t outputs;

  explicit Drawn(std::mt19937& random) {
    const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % limit); };
    const auto divisor = [&](int64_t whole) {
      int64_t found = 1 + below(whole);
      while (whole % found != 0) --found;
      return found;
    };
    const auto length = [&] { return int64_t{1} << below(11); };
    channels = 1 + below(24);
    groups = divisor(channels);
    offset_groups = divisor(channels);
    outputs = groups * (1 + below(1 + below(64)));
    height = length() + below(length()), width = length() + below(length());
    for (int i = 0; i < 2; ++i) {
      kernel[i] = 1 + below(5), strides[i] = 1 + below(3), dilations[i] = 1 + below(3);
    }
  }
  std::string text() const {
    return str("1x", channels, "x", height, "x", width, " -> ", outputs, ", kernel ", kernel[0],
               "x", kernel[1], " stride ", strides[0], "x", strides[1], " dilation ", dilations[0],
               "x", dilations[1], " ", groups, " groups ", offset_groups, " offset groups");
  }
};

// Returns whether the gradients are computed by this plan.
template <class T>
bool check(const Drawn& c) {
  using deform::portable::CellPlan;
  const int64_t rows = (c.height - 1) / c.strides[0] + 1,
                columns = (c.width - 1) / c.strides[1] + 1;
  const Tensor X(nullptr, DType::Float32, {1, c.channels, c.height, c.width});
  const Tensor W(nullptr, DType::Float32,
                 {c.outputs, c.channels / c.groups, c.kernel[0], c.kernel[1]});
  const Tensor Y(nullptr, DType::Float32, {1, c.outputs, rows, columns});
  const deform::ConvShape conv(
      attributes(*find_op("deform_conv2d"),
                 {{"strides", std::vector<int64_t>{c.strides[0], c.strides[1]}},
                  {"dilations", std::vector<int64_t>{c.dilations[0], c.dilations[1]}},
                  {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                  {"group", c.groups},
                  {"offset_group", c.offset_groups}}),
      X, W, Y);
  if (!CellPlan<T>::supports(conv)) return false;
  const CellPlan<T> plan(conv);
  const deform::portable::Tile tile = plan.tiling().at(0, 0);
  const int64_t cells = deform::portable::usual_cells(conv, plan.tiling());
  expect(cells <= plan.table_cells() || tile.columns <= 32,
         str(c.text(), ": a tile of ", tile.rows, "x", tile.columns, " has ", cells,
             " cells, its table ", plan.table_cells()));
  return true;
}

}  // namespace

int main() {
  std::mt19937 random(7);
  int used = 0;
  for (int i = 0; i < 20000; ++i) {
    const Drawn drawn(random);
    used += check<float>(drawn) + check<double>(drawn) + check<Half>(drawn);
  }
  expect(used > 10000, str("only ", used, " plans were checked"));
  return finish("plans of deform_conv2d");
}
