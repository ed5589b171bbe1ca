// volume_render: what rays see of a volume that glows and absorbs; as in NeRF.
//
//   alpha_i = 1 - exp(-density_i * length_i),  T_i = (1 - alpha_0) ... (1 - alpha_{i-1})
//   weight_i = T_i * alpha_i,  pixel = sum_i weight_i * color_i + T_S * background
#include <cmath>

#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
void compute(KernelContext& context) {
  const View<const T, 2> densities(context.input(0)), lengths(context.input(2));
  const View<const T, 3> colors(context.input(1));
  const View<T, 2> pixels(context.output(0)), weights(context.output(1));
  const int64_t samples = colors.length(1), channels = colors.length(2);
  const T background = static_cast<T>(context.attributes().real("background"));
  context.parallel_for(colors.length(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t ray = begin; ray < end; ++ray) {
      T through = 1;
      for (int64_t c = 0; c < channels; ++c) pixels(ray, c) = 0;
      for (int64_t i = 0; i < samples; ++i) {
        const T depth = densities(ray, i) * lengths(ray, i);
        const T weight = weights(ray, i) = through * -std::expm1(-depth);
        for (int64_t c = 0; c < channels; ++c) pixels(ray, c) += weight * colors(ray, i, c);
        through *= std::exp(-depth);
      }
      for (int64_t c = 0; c < channels; ++c) pixels(ray, c) += through * background;
    }
  });
}

// With g_i = dL/dweight_i + dL/dpixel . color_i, and what comes from behind sample i,
//   behind_i = sum_{j > i} weight_j * g_j + T_S * background * sum(dL/dpixel),
// dL/d(density_i * length_i) is T_{i+1} * g_i - behind_i: nothing is divided by 1 - alpha, which
// may be 0.
template <class T>
void differentiate(KernelContext& context) {
  const View<const T, 2> grad_pixels(context.input(0)), grad_weights(context.input(1));
  const View<const T, 2> densities(context.input(2)), lengths(context.input(4));
  const View<const T, 3> colors(context.input(3));
  const View<T, 2> grad_densities(context.output(0)), grad_lengths(context.output(2));
  const View<T, 3> grad_colors(context.output(1));
  const int64_t samples = colors.length(1), channels = colors.length(2);
  const T background = static_cast<T>(context.attributes().real("background"));
  context.parallel_for(colors.length(0), 64, [&](int64_t begin, int64_t end) {
    const auto front = context.scratch_array<T>(samples);
    for (int64_t ray = begin; ray < end; ++ray) {
      T through = 1, behind = 0;
      for (int64_t i = 0; i < samples; ++i) {
        front[i] = through;
        through *= std::exp(-densities(ray, i) * lengths(ray, i));
      }
      for (int64_t c = 0; c < channels; ++c) behind += through * background * grad_pixels(ray, c);
      for (int64_t i = samples; i-- > 0; through = front[i]) {
        const T weight = front[i] * -std::expm1(-densities(ray, i) * lengths(ray, i));
        T grad = grad_weights(ray, i);
        for (int64_t c = 0; c < channels; ++c) {
          grad += grad_pixels(ray, c) * colors(ray, i, c);
          grad_colors(ray, i, c) = grad_pixels(ray, c) * weight;
        }
        const T grad_depth = through * grad - behind;
        grad_densities(ray, i) = grad_depth * lengths(ray, i);
        grad_lengths(ray, i) = grad_depth * densities(ray, i);
        behind += weight * grad;
      }
    }
  });
}

}  // namespace

MYOPS_OP(volume_render) {
  return Op("volume_render")
      .onnx("VolumeRender", 1)
      .doc("Volume rendering along rays, with the weights of the samples.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"densities", "T", "[R, S], what a unit of length absorbs."})
      .input({"colors", "T", "[R, S, C], of samples that let nothing through."})
      .input({"lengths", "T", "[R, S], of the samples along their ray."})
      .output({"pixels", "T", "[R, C], the weighted sum of colors."})
      .output({"weights", "T", "[R, S], the share of each sample."})
      .attribute({"background", 0.0, "What is behind the samples, in every channel."})
      .shape("R S, R S C, R S -> R C, R S")
      .kernel(MYOPS_TYPED(compute, float, double));
}

MYOPS_OP(volume_render_backward) {
  return backward_of(describe_volume_render(), {"densities", "colors", "lengths"})
      .kernel(MYOPS_TYPED(differentiate, float, double));
}
