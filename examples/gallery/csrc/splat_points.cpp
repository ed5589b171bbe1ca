// splat_points: points drawn as soft discs, the k nearest of each pixel one over the other; as in
// SynSin. At distance d a point of radius r covers alpha = 1 - (d / r)^2 of a pixel, which shows
// the sum of T * alpha * feature, where T = (1 - alpha) (1 - alpha) ... of the points in front.
#include <algorithm>
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
struct Hit {
  int64_t point = -1;  // among those of all images; -1: none
  T depth = std::numeric_limits<T>::infinity(), alpha = 0, through = 1;
};

template <class T>
struct Scene {
  static constexpr int64_t kBand = 16;  // rows that are drawn together
  const KernelContext& context;
  const View<const T, 3> points;
  const int64_t height, width, area = height * width;
  const int64_t images = points.length(0), count = points.length(1);
  const int64_t k = std::min(context.attributes().integer("k"), count);
  const T radius = static_cast<T>(context.attributes().real("radius"));

  // Calls visit(pixel, u, v, alpha) for the pixels under a point in the rows [top, bottom), with
  // (u, v) = (point - pixel) / radius; for none if it is not finite, or not in front (z <= 0).
  template <class Visit>
  void disc(int64_t point, int64_t top, int64_t bottom, const Visit& visit) const {
    const T x = points(0, point, 0), y = points(0, point, 1), z = points(0, point, 2);
    if (!(z > 0) || !std::isfinite(x + y + z)) return;
    const auto clip = [](double a, double lo, double hi) { return int64_t(std::clamp(a, lo, hi)); };
    const int64_t right = clip(x + radius + 1, 0, width), end = clip(y + radius + 1, top, bottom);
    for (int64_t row = clip(y - radius, top, bottom); row < end; ++row) {
      for (int64_t column = clip(x - radius, 0, width); column < right; ++column) {
        const T u = (x - column) / radius, v = (y - row) / radius, alpha = 1 - (u * u + v * v);
        if (alpha > 0) visit(row * width + column, u, v, alpha);
      }
    }
  }

  // Calls show(image, pixel, hits) for every pixel: k hits, the nearest first; of points at one
  // depth the one with the lower index.
  template <class Show>
  void draw(const Show& show) const {
    const int64_t bands = (height + kBand - 1) / kBand;
    context.parallel_for(images * bands, 1, [&](int64_t task, int64_t) {
      const int64_t image = task / bands, top = task % bands * kBand, start = top * width;
      const int64_t bottom = std::min(top + kBand, height), size = (bottom - top) * width;
      const auto hits = context.scratch_array(size * k, Hit<T>());
      for (int64_t point = image * count; point < (image + 1) * count; ++point) {
        const T z = points(0, point, 2);
        disc(point, top, bottom, [&](int64_t pixel, T, T, T alpha) {
          Hit<T>*first = &hits[(pixel - start) * k], *place = first + k;
          for (; place != first && place[-1].depth > z; --place) {
            if (place != first + k) *place = place[-1];
          }
          if (place != first + k) *place = {point, z, alpha, 1};
        });
      }
      for (int64_t i = 0; i < size * k; ++i) {
        if (i % k) hits[i].through = hits[i - 1].through * (1 - hits[i - 1].alpha);
      }
      for (int64_t i = 0; i < size; ++i) show(image, start + i, hits.begin() + i * k);
    });
  }
};

template <class T>
void compute(KernelContext& context) {
  const View<const T, 3> points(context.input(0)), features(context.input(1));
  const View<T, 4> image(context.output(0));
  const Scene<T> scene{context, points, image.length(1) ? image.length(2) : 0, image.length(3)};
  scene.draw([&](int64_t n, int64_t pixel, const Hit<T>* hits) {
    for (int64_t c = 0; c < image.length(1); ++c) {
      T& sum = image(n, c, 0, pixel) = 0;
      for (const Hit<T>* hit = hits; hit != hits + scene.k && hit->point >= 0; ++hit) {
        sum += hit->through * hit->alpha * features(0, hit->point, c);
      }
    }
  });
}

// First each pixel finds the gradients of its hits, then each point collects its own from the
// pixels under it, in their order: threads make no difference.
template <class T>
void differentiate(KernelContext& context) {
  const View<const T, 4> grad(context.input(0));
  const View<const T, 3> points(context.input(1)), features(context.input(2));
  const View<T, 3> to_points(context.output(0)), to_features(context.output(1));
  std::fill_n(&to_points(0), context.output(0).elements(), T(0));
  std::fill_n(&to_features(0), context.output(1).elements(), T(0));
  const int64_t C = grad.length(1), height = C ? grad.length(2) : 0;
  const Scene<T> scene{context, points, height, grad.length(3)};
  const auto pulls = context.scratch_array<Hit<T>>(scene.images * scene.area * scene.k);
  scene.draw([&](int64_t n, int64_t pixel, const Hit<T>* hits) {
    T behind = 0;  // dL/dpixel . what the hits behind this one show
    for (int64_t i = scene.k; i-- > 0;) {
      Hit<T>& hit = pulls[(n * scene.area + pixel) * scene.k + i] = hits[i];
      T own = 0;
      for (int64_t c = 0; hit.point >= 0 && c < C; ++c) {
        own += grad(n, c, 0, pixel) * features(0, hit.point, c);
      }
      hit.depth = -2 / scene.radius * hit.through * (own - behind);  // (u, v) times it: dL/d(x, y)
      behind = hit.alpha * own + (1 - hit.alpha) * behind;
    }
  });
  context.parallel_for(scene.images * scene.count, 1, [&](int64_t point, int64_t) {
    const int64_t n = point / scene.count;
    scene.disc(point, 0, height, [&](int64_t pixel, T u, T v, T) {
      const Hit<T>* hit = &pulls[(n * scene.area + pixel) * scene.k];
      for (const Hit<T>* end = hit + scene.k; hit != end; ++hit) {
        if (hit->point != point) continue;
        const T weight = hit->through * hit->alpha;
        to_points(0, point, 0) += hit->depth * u;
        to_points(0, point, 1) += hit->depth * v;
        for (int64_t c = 0; c < C; ++c) to_features(0, point, c) += weight * grad(n, c, 0, pixel);
      }
    });
  });
}

}  // namespace

MYOPS_OP(splat_points) {
  return Op("splat_points")
      .onnx("SplatPoints", 1)
      .doc("Points drawn as soft discs, the k nearest of each pixel one over the other.")
      .type("T", {DType::Float32, DType::Float64})
      .type("I", {DType::Int64})
      .input({"points", "T", "[N, P, 3]: x and y in pixels, depth z."})
      .input({"features", "T", "[N, P, C]"})
      .input(Input{"size", "I", "Height and width of the image."}.values())
      .output({"image", "T", "[N, C, height, width]"})
      .attribute(Attribute{"radius", 1.5, "Of the discs, in pixels; above 0."}.above(0))
      .attribute(Attribute{"k", int64_t{8}, "How many points a pixel may show."}.at_least(1))
      .shape("N P 3, N P C, {H W} -> N C H W")
      .kernel(MYOPS_TYPED(compute, float, double));
}

MYOPS_OP(splat_points_backward) {
  return backward_of(describe_splat_points(), {"points", "features"})
      .kernel(MYOPS_TYPED(differentiate, float, double));
}
