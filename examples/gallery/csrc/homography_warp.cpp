// homography_warp: planes with alpha, each seen through its homography, one over the other. Pixel
// (x, y) looks at the point (u, v) / w of plane d, where [u, v, w] = H_d [x, y, 1]. With the colour
// c_d and the opacity a_d there, it shows r_d = a_d c_d + (1 - a_d) r_(d-1), from r_(-1) = 0 on.
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
struct Scene {
  const Tensor &planes_tensor, &maps_tensor, &image;
  const View<const T, 5> planes{planes_tensor};  // [N, D, 4, H, W]
  const View<const T, 4> maps{maps_tensor};      // [N, D, 3, 3]
  const int64_t depth = maps.length(1), width = image.shape[3], pixels = image.shape[2] * width;

  // Calls visit(row, column, weight, [its derivatives by u, v, w]) for up to four pixels of plane d
  // that pixel i sees: none where w <= 0, or the point is not finite, or a pixel or more outside.
  template <class Visit>
  void look(int64_t n, int64_t d, int64_t i, const Visit& visit) const {
    const T* H = &maps(n, d);
    const double x = i % width, y = i / width, w = H[6] * x + H[7] * y + H[8];
    const double u = (H[0] * x + H[1] * y + H[2]) / w, v = (H[3] * x + H[4] * y + H[5]) / w;
    const int64_t rows = planes.length(3), columns = planes.length(4);
    if (!(w > 0 && u > -1 && u < columns && v > -1 && v < rows)) return;  // NaN fails them too
    for (int k = 0; k < 4; ++k) {
      const auto row = int64_t(std::floor(v)) + k / 2, column = int64_t(std::floor(u)) + k % 2;
      if (row < 0 || column < 0 || row >= rows || column >= columns) continue;
      const double a = 1 - std::abs(u - column), b = 1 - std::abs(v - row);
      const double du = (k % 2 ? b : -b) / w, dv = (k / 2 ? a : -a) / w;
      visit(row, column, a * b, std::array<double, 3>{du, dv, -du * u - dv * v});
    }
  }
  std::array<T, 5> rgba(int64_t n, int64_t d, int64_t i) const {
    double s[4] = {};
    look(n, d, i, [&](int64_t row, int64_t column, double weight, auto) {
      for (int c = 0; c < 4; ++c) s[c] += weight * planes(n, d, c, row, column);
    });
    return {T(s[0]), T(s[1]), T(s[2]), T(s[3]), 0};  // 0: room for a gradient
  }
};

template <class T>
void composite(KernelContext& context) {
  const View<T, 4> image(context.output(0));
  const Scene<T> scene{context.input(0), context.input(1), context.output(0)};
  context.parallel_for(image.length(0) * scene.pixels, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T sum[3] = {};
      for (int64_t d = 0; d < scene.depth; ++d) {
        const auto s = scene.rgba(i / scene.pixels, d, i % scene.pixels);
        for (int c = 0; c < 3; ++c) sum[c] = s[3] * s[c] + (1 - s[3]) * sum[c];
      }
      for (int c = 0; c < 3; ++c) image(i / scene.pixels, c, 0, i % scene.pixels) = sum[c];
    }
  });
}

// First each pixel finds the gradients of its samples, then each plane collects its own from all
// pixels, in their order: threads make no difference.
template <class T>
void differentiate(KernelContext& context) {
  const View<const T, 4> grad(context.input(0));
  const View<T, 5> to_planes(context.output(0));
  const View<T, 4> to_maps(context.output(1));
  const Scene<T> scene{context.input(1), context.input(2), context.input(0)};
  const auto samples = context.scratch_array<std::array<T, 5>>(scene.depth * scene.pixels);
  std::fill_n(&to_planes(0), context.output(0).elements(), T(0));
  for (int64_t n = 0; n < grad.length(0); ++n) {
    context.parallel_for(scene.pixels, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T g[3] = {grad(n, 0, 0, i), grad(n, 1, 0, i), grad(n, 2, 0, i)};
        const auto dot = [&](const auto& s) { return g[0] * s[0] + g[1] * s[1] + g[2] * s[2]; };
        T behind = 0, light = 1;
        for (int64_t d = 0; d < scene.depth; ++d) {
          auto& s = samples[d * scene.pixels + i] = scene.rgba(n, d, i);
          s[4] = behind;
          behind = s[3] * dot(s) + (1 - s[3]) * behind;
        }
        for (int64_t d = scene.depth; d-- > 0;) {
          auto& s = samples[d * scene.pixels + i];
          const T a = s[3], share = light * a;
          s = {share * g[0], share * g[1], share * g[2], light * (dot(s) - s[4]), 0};
          light *= 1 - a;
        }
      }
    });
    context.parallel_for(scene.depth, 1, [&](int64_t d, int64_t) {
      double sums[9] = {};
      for (int64_t i = 0; i < scene.pixels; ++i) {
        const auto& s = samples[d * scene.pixels + i];
        const double point[] = {double(i % scene.width), double(i / scene.width), 1};
        scene.look(n, d, i, [&](int64_t row, int64_t column, double weight, auto slopes) {
          double grad_weight = 0;
          for (int c = 0; c < 4; ++c) {
            to_planes(n, d, c, row, column) += T(weight * s[c]);
            grad_weight += double(s[c]) * scene.planes(n, d, c, row, column);
          }
          for (int k = 0; k < 9; ++k) sums[k] += grad_weight * slopes[k / 3] * point[k % 3];
        });
      }
      for (int k = 0; k < 9; ++k) to_maps(n, d, k / 3, k % 3) = T(sums[k]);
    });
  }
}

}  // namespace

MYOPS_OP(homography_warp) {
  return Op("homography_warp")
      .onnx("HomographyWarp", 1)
      .doc("Planes with alpha, each seen through its homography, one over the other.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input(Input{"planes", "T", "[N, D, 4, H, W], RGBA, back to front."}.access(Access::Strided))
      .input({"homographies", "T", "[N, D, 3, 3], from pixels of the image to the planes'."})
      .input(Input{"size", "I", "Height and width of the image."}.values())
      .output({"image", "T", "[N, 3, height, width]"})
      .shape("N D 4 H W, N D 3 3, {h w} -> N 3 h w")
      .kernel(MYOPS_TYPED(composite, float, double));
}

MYOPS_OP(homography_warp_backward) {
  return backward_of(describe_homography_warp(), {"planes", "homographies"})
      .kernel(MYOPS_TYPED(differentiate, float, double));
}
