// The sizes of one deformable convolution, and the checks that all ops of this directory share.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "myops/op.h"

namespace myops::deform {

// Indices of the inputs in an op's description; -1: the op has no such input.
struct InputIndices {
  int grad, X, W, offset, bias, mask;
};

// Lengths that the checks determine; a length that no input determines stays unknown.
struct KnownLengths {
  Dims X, W, offset, mask, output;
};

// Refuses wrong ranks, lengths, groups and attributes. A length that is unknown in one input is
// taken from another one, or is not checked.
KnownLengths check(ShapeContext& context, const InputIndices& slots);

// Refuses an argument whose rank or known lengths differ from `expected`.
void expect_shape(const ShapeContext& context, const char* name, const Dims& dims,
                  const Dims& expected, const char* meaning);

// The attribute `needs` of a backward op: which gradients are needed. An empty list means all.
std::vector<bool> read_needs(const std::string& op, const Attributes& attributes, size_t count);

// The attributes that every op of this directory has; and the type of those on floats.
Op with_geometry(Op op);
Op with_attributes(Op op);

struct ConvShape {
  int64_t batch = 0, channels, height = 0, width = 0;
  int64_t outputs, out_height = 0, out_width = 0;
  int64_t kernel_width, taps;  // taps: kernel height times width
  int64_t groups, offset_groups;
  int64_t stride_y = 0, stride_x = 0, dilation_y = 0, dilation_x = 0, pad_top = 0, pad_left = 0;

  // The sizes that W and the groups determine; they must match. The others are 0 and not used.
  ConvShape(const Attributes& attributes, const Tensor& W);
  // For a kernel, after the checks; `output` is Y or its gradient.
  ConvShape(const Attributes& attributes, const Tensor& X, const Tensor& W, const Tensor& output);

  int64_t group_channels() const { return channels / groups; }
  int64_t group_outputs() const { return outputs / groups; }
  int64_t channels_per_offset() const {
    return channels / offset_groups;
  }  // channels of one offset group
  // One filter for each channel: there are no sums over channels, so vectors run over channels.
  bool depthwise() const { return groups == channels && groups == outputs; }
  // Whether products of bfloat16 sum over pairs of channels: a block has channels of one weight
  // group, or even numbers of them of each; and there are so many samples and outputs that products
  // take longer than vectors of a few channels, which are mostly empty.
  bool sums_pairs() const {
    const int64_t length = channels_per_offset(), outputs_of_group = group_outputs();
    const bool alone = group_channels() % length == 0;  // of one weight group
    const bool even = group_channels() % 2 == 0 && length % 2 == 0;
    if (depthwise() || !(alone || even)) return false;
    if (!alone) return outputs_of_group > 4 || length > 20;
    if (length > 2 && length < 8) return taps > 1 && outputs_of_group > 32;
    return length > 2 || length * outputs_of_group > 64;
  }
};

// Whether there are constant weights (input 1) that match the attributes. Nothing has been checked
// yet; the checks of the first call refuse others.
bool constant_weights(const PrepareContext& context);

}  // namespace myops::deform
