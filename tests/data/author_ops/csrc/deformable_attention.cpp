// Multi-scale deformable attention (Zhu et al. 2021, https://arxiv.org/abs/2010.04159): each query
// samples each head's feature maps, of several sizes, at positions of its own, bilinearly with
// zeros outside, and adds the samples up with weights.
#include <cmath>
#include <vector>

#include "myops/op.h"

namespace {
using namespace myops;

struct Level {
  int64_t height, width, first;  // the place of its first row in `value`
};

std::vector<Level> levels(const Tensor& sizes, int64_t total) {
  const auto* size = sizes.as<int64_t>();
  std::vector<Level> found;
  int64_t first = 0;
  for (int64_t i = 0; i < sizes.shape[0]; ++i, size += 2) {
    int64_t area = 0;
    const bool good = size[0] >= 0 && size[1] >= 0 &&
                      !__builtin_mul_overflow(size[0], size[1], &area) && area <= total - first;
    if (!good) {
      throw Error(str("deformable_attention: sizes: got ", size[0], " x ", size[1], " for level ",
                      i, ", expected levels of ", total, " positions together, as value has"));
    }
    found.push_back({size[0], size[1], first});
    first += area;
  }
  if (first != total) {
    throw Error(str("deformable_attention: sizes: got ", first,
                    " positions in all levels, expected ", total, ", as value has"));
  }
  return found;
}

// The cell of a feature map around a position, and how the sample changes with the position.
template <class T>
struct Cell {
  struct Corner {
    int64_t row;  // of `value`; -1: outside
    T weight, by_y, by_x;
  };
  Corner corners[4];
  bool inside = false;

  Cell(const Level& level, const T* location) {
    const T x = location[0] * static_cast<T>(level.width) - T(0.5);
    const T y = location[1] * static_cast<T>(level.height) - T(0.5);
    // False for NaN too.
    inside =
        x > -1 && y > -1 && x < static_cast<T>(level.width) && y < static_cast<T>(level.height);
    if (!inside) return;
    const T left = std::floor(x), top = std::floor(y);
    const auto column = static_cast<int64_t>(left), line = static_cast<int64_t>(top);
    const T right_share = x - left, bottom_share = y - top;
    for (int i = 0; i < 4; ++i) {
      const bool bottom = i >= 2, right = i % 2 == 1;
      const int64_t r = line + bottom, c = column + right;
      const bool exists = r >= 0 && c >= 0 && r < level.height && c < level.width;
      const T across = right ? right_share : 1 - right_share;
      const T down = bottom ? bottom_share : 1 - bottom_share;
      corners[i] = {exists ? level.first + r * level.width + c : -1, across * down,
                    (bottom ? across : -across) * static_cast<T>(level.height),
                    (right ? down : -down) * static_cast<T>(level.width)};
    }
  }
};

struct Sizes {
  int64_t batch, positions, heads, depth, queries, levels, points;
  Sizes(const Tensor& value, const Tensor& locations)
      : batch(value.shape[0]),
        positions(value.shape[1]),
        heads(value.shape[2]),
        depth(value.shape[3]),
        queries(locations.shape[1]),
        levels(locations.shape[3]),
        points(locations.shape[4]) {}
};

// Calls body(query, level, number of the sample) for each sample of a batch element and a head.
template <class Body>
void for_each_sample(const Sizes& s, int64_t n, int64_t m, const Body& body) {
  for (int64_t q = 0; q < s.queries; ++q) {
    const int64_t first = ((n * s.queries + q) * s.heads + m) * s.levels * s.points;
    for (int64_t l = 0; l < s.levels; ++l) {
      for (int64_t p = 0; p < s.points; ++p) body(q, l, first + l * s.points + p);
    }
  }
}

template <class T>
void forward(KernelContext& context) {
  const Tensor &value = context.input(0), &locations = context.input(2);
  const Sizes s(value, locations);
  const std::vector<Level> maps = levels(context.input(1), s.positions);
  const T *from = value.as<T>(), *location = locations.as<T>(), *weight = context.input(3).as<T>();
  T* out = context.output(0).as<T>();
  std::fill(out, out + context.output(0).elements(), T(0));
  context.parallel_for(s.batch * s.heads, 1, [&](int64_t begin, int64_t end) {
    const auto sample = context.scratch_array<T>(s.depth);
    for (int64_t pair = begin; pair < end; ++pair) {
      const int64_t n = pair / s.heads, m = pair % s.heads;
      for_each_sample(s, n, m, [&](int64_t q, int64_t l, int64_t place) {
        const Cell<T> cell(maps[static_cast<size_t>(l)], location + 2 * place);
        std::fill(sample.begin(), sample.end(), T(0));
        for (int i = 0; cell.inside && i < 4; ++i) {
          if (cell.corners[i].row < 0) continue;
          const T* row = from + ((n * s.positions + cell.corners[i].row) * s.heads + m) * s.depth;
          for (int64_t d = 0; d < s.depth; ++d) sample[d] += cell.corners[i].weight * row[d];
        }
        T* to = out + ((n * s.queries + q) * s.heads + m) * s.depth;
        for (int64_t d = 0; d < s.depth; ++d) to[d] += weight[place] * sample[d];
      });
    }
  });
}

template <class T>
void backward(KernelContext& context) {
  const Tensor &value = context.input(1), &locations = context.input(3);
  const Sizes s(value, locations);
  const std::vector<Level> maps = levels(context.input(2), s.positions);
  const T* grad = context.input(0).as<T>();
  const T *from = value.as<T>(), *location = locations.as<T>(), *weight = context.input(4).as<T>();
  T* grad_value = context.output(0).as<T>();
  T* grad_location = context.output(1).as<T>();
  T* grad_weight = context.output(2).as<T>();
  std::fill(grad_value, grad_value + value.elements(), T(0));
  // What a piece of work adds to is one head of one batch element, which no other piece touches.
  context.parallel_for(s.batch * s.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const int64_t n = pair / s.heads, m = pair % s.heads;
      for_each_sample(s, n, m, [&](int64_t q, int64_t l, int64_t place) {
        const Cell<T> cell(maps[static_cast<size_t>(l)], location + 2 * place);
        const T* arriving = grad + ((n * s.queries + q) * s.heads + m) * s.depth;
        T by_weight = 0, by_y = 0, by_x = 0;
        for (int i = 0; cell.inside && i < 4; ++i) {
          const auto& corner = cell.corners[i];
          if (corner.row < 0) continue;
          const int64_t row = ((n * s.positions + corner.row) * s.heads + m) * s.depth;
          T product = 0;
          for (int64_t d = 0; d < s.depth; ++d) {
            product += arriving[d] * from[row + d];
            grad_value[row + d] += weight[place] * corner.weight * arriving[d];
          }
          by_weight += corner.weight * product;
          by_y += corner.by_y * product;
          by_x += corner.by_x * product;
        }
        grad_weight[place] = by_weight;
        grad_location[2 * place] = weight[place] * by_x;
        grad_location[2 * place + 1] = weight[place] * by_y;
      });
    }
  });
}

void shape(ShapeContext& context) {
  Lengths lengths(context);
  lengths.match(0, "N S M D").match(1, "L 2").match(2, "N Q M L P 2").match(3, "N Q M L P");
  const Dim &heads = lengths["M"], &depth = lengths["D"];
  const bool known = heads.known() && depth.known();
  context.set_output(0,
                     {lengths["N"], lengths["Q"], known ? Dim(heads.value * depth.value) : Dim()});
}

}  // namespace

MYOPS_OP(deformable_attention) {
  return Op("deformable_attention")
      .onnx("MultiScaleDeformableAttention", 1)
      .doc("Multi-scale deformable attention.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input({"value", "T", "[N, S, M, D]: the positions of all levels, M heads of D channels."})
      .input({"sizes", "I", "[L, 2]: height and width of each level."})
      .input({"locations", "T", "[N, Q, M, L, P, 2]: x and y, from 0 to 1 inside of a level."})
      .input({"weights", "T", "[N, Q, M, L, P]"})
      .output({"y", "T", "[N, Q, M * D]"})
      .shape(shape)
      .kernel(MYOPS_TYPED(forward, float, double));
}

MYOPS_OP(deformable_attention_backward) {
  return backward_of(describe_deformable_attention(), {"value", "locations", "weights"})
      .kernel(MYOPS_TYPED(backward, float, double));
}
