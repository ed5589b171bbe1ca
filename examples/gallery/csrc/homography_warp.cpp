// homography_warp: planes with alpha, each seen through its homography, one over the other.
//
// Target pixel (x, y) looks at the point (u, v) / w of plane d, where [u, v, w] = H_d [x, y, 1];
// centres of pixels have whole coordinates. With colour c_d and opacity a_d there, the planes add
// up from the farthest to the nearest: r_d = a_d c_d + (1 - a_d) r_(d-1), and r_(-1) = 0.
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
using Rgba = std::array<T, 4>;

// How a target pixel looks at one plane.
template <class T>
struct Look {
  const View<const T, 5>& planes;  // [N or 1, D, 4, H, W]
  int64_t n, d;
  double u, v, w;  // u and v divided by w

  Look(const View<const T, 5>& planes_, const View<const T, 4>& maps, int64_t n_, int64_t d_,
       double y, double x)
      : planes(planes_), n(n_), d(d_) {
    const T* H = &maps(n, d);
    w = H[6] * x + H[7] * y + H[8];
    u = (H[0] * x + H[1] * y + H[2]) / w;
    v = (H[3] * x + H[4] * y + H[5]) / w;
  }
  // Calls visit(row, column, weight, d weight / du, d weight / dv) for up to four pixels of the
  // plane: none where the point is not in front (w <= 0), not finite, or one pixel or more outside.
  template <class Visit>
  void each(const Visit& visit) const {
    const int64_t height = planes.length(3), width = planes.length(4);
    if (!(w > 0 && u > -1 && u < width && v > -1 && v < height)) return;  // NaN fails too
    for (int k = 0; k < 4; ++k) {
      const auto row = int64_t(std::floor(v)) + k / 2, column = int64_t(std::floor(u)) + k % 2;
      if (row < 0 || column < 0 || row >= height || column >= width) continue;
      const double a = 1 - std::abs(u - column), b = 1 - std::abs(v - row);
      visit(row, column, a * b, k % 2 ? b : -b, k / 2 ? a : -a);
    }
  }
  Rgba<T> rgba() const {
    double sums[4] = {};
    each([&](int64_t row, int64_t column, double weight, double, double) {
      for (int c = 0; c < 4; ++c) sums[c] += weight * planes(n, d, c, row, column);
    });
    return {T(sums[0]), T(sums[1]), T(sums[2]), T(sums[3])};
  }
};

void shape(ShapeContext& context) {
  Lengths lengths(context);
  lengths.match(0, context.dims(0).size() == 4 ? "D 4 H W" : "N D 4 H W").match(1, "N D 3 3");
  const std::vector<int64_t>& size = context.attributes().integers("size");
  MYOPS_EXPECT(context, size.empty() || (size.size() == 2 && size[0] >= 0 && size[1] >= 0), "size",
               str(size), "[height, width], or [] for that of the planes");
  context.set_output(0, {lengths["N"], 3, size.empty() ? lengths["H"] : Dim(size[0]),
                         size.empty() ? lengths["W"] : Dim(size[1])});
}

template <class T>
void composite(KernelContext& context) {
  const View<const T, 5> planes(context.input(0));
  const View<const T, 4> maps(context.input(1));
  const View<T, 4> image(context.output(0));
  const int64_t height = image.length(2), width = image.length(3);
  context.parallel_for(image.length(0) * height * width, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / width / height, y = i / width % height, x = i % width;
      T sum[3] = {};
      for (int64_t d = 0; d < maps.length(1); ++d) {
        const Rgba<T> s = Look<T>(planes, maps, n, d, y, x).rgba();
        for (int c = 0; c < 3; ++c) sum[c] = s[3] * s[c] + (1 - s[3]) * sum[c];
      }
      for (int c = 0; c < 3; ++c) image(n, c, y, x) = sum[c];
    }
  });
}

// First each pixel finds the gradients of the samples that it is made of; then each plane collects
// its own from all pixels, in their order, so that threads make no difference.
template <class T>
void differentiate(KernelContext& context) {
  const View<const T, 4> grad(context.input(0)), maps(context.input(2));
  const View<const T, 5> planes(context.input(1));
  const View<T, 5> grad_planes(context.output(0));
  const View<T, 4> grad_maps(context.output(1));
  const int64_t depth = maps.length(1), width = grad.length(3), pixels = grad.length(2) * width;
  struct Sample {
    Rgba<T> rgba;
    T behind;  // grad . what the planes behind add up to
  };
  const Scratch memory = context.scratch(depth * pixels * sizeof(Sample));
  std::fill_n(&grad_planes(0), context.output(0).elements(), T(0));
  for (int64_t n = 0; n < grad.length(0); ++n) {
    context.parallel_for(pixels, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T g[3] = {grad(n, 0, 0, i), grad(n, 1, 0, i), grad(n, 2, 0, i)};
        const auto dot = [&](const Rgba<T>& s) { return g[0] * s[0] + g[1] * s[1] + g[2] * s[2]; };
        Sample* samples = memory.as<Sample>() + i;
        T behind = 0, light = 1;
        for (int64_t d = 0; d < depth; ++d) {
          const Rgba<T> s = Look<T>(planes, maps, n, d, i / width, i % width).rgba();
          samples[d * pixels] = {s, behind};
          behind = s[3] * dot(s) + (1 - s[3]) * behind;
        }
        for (int64_t d = depth; d-- > 0;) {
          auto& [s, rest] = samples[d * pixels];
          const T a = s[3];
          s = {light * a * g[0], light * a * g[1], light * a * g[2], light * (dot(s) - rest)};
          light *= 1 - a;
        }
      }
    });
    context.parallel_for(depth, 1, [&](int64_t d, int64_t) {
      double sums[9] = {};
      for (int64_t i = 0; i < pixels; ++i) {
        const Look<T> look(planes, maps, n, d, i / width, i % width);
        const Rgba<T>& s = memory.as<Sample>()[d * pixels + i].rgba;
        look.each([&](int64_t row, int64_t column, double weight, double by_u, double by_v) {
          double through = 0;  // the gradient of the weight
          for (int c = 0; c < 4; ++c) {
            grad_planes(n, d, c, row, column) += T(weight * s[c]);
            through += double(s[c]) * planes(n, d, c, row, column) / look.w;
          }
          const double rows[] = {by_u, by_v, -by_u * look.u - by_v * look.v};
          const double point[] = {double(i % width), double(i / width), 1};
          for (int k = 0; k < 9; ++k) sums[k] += through * rows[k / 3] * point[k % 3];
        });
      }
      for (int k = 0; k < 9; ++k) grad_maps(n, d, k / 3, k % 3) = T(sums[k]);
    });
  }
}

}  // namespace

MYOPS_OP(homography_warp) {
  return Op("homography_warp")
      .onnx("HomographyWarp", 1)
      .doc("Planes with alpha, each seen through its homography, one over the other.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"planes", "T", "[N, D, 4, H, W], or [D, 4, H, W] for all: RGBA, back to front."})
      .input({"homographies", "T", "[N, D, 3, 3], from pixels of the image to those of the plane."})
      .output({"image", "T", "[N, 3, height, width]"})
      .attribute({"size", std::vector<int64_t>{}, "[height, width]; [] is that of the planes."})
      .shape(shape)
      .kernel(MYOPS_TYPED(composite, float, double));
}

MYOPS_OP(homography_warp_backward) {
  return backward_of(describe_homography_warp(), {"planes", "homographies"})
      .kernel(MYOPS_TYPED(differentiate, float, double));
}
