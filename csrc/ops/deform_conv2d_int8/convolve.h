// The kernel of deform_conv2d_int8; the arithmetic is in blocking.h.
#pragma once

#include "columns.h"
#include "kernels.h"

namespace myops::deform::MYOPS_ISA {

// W as the products read it, and its sums for each output: a chunk of outputs after another, each
// in the order of ByteBlocking::for_each(), panels of [factors of a lane][kPanel].
struct PackedBytes {
  PackedBytes(const ConvShape& conv, const Tensor& W, Scratch packed, Scratch totals_)
      : memory(std::move(packed)), totals(std::move(totals_)) {
    const auto* weights = W.as<const int8_t>();
    const ByteBlocking blocking(conv);
    const int64_t depth = conv.group_channels() * conv.taps;
    for (int64_t o = 0; o < conv.outputs; ++o) {
      int32_t total = 0;
      for (int64_t i = 0; i < depth; ++i) total += weights[o * depth + i];
      totals.as<int32_t>()[o] = total;
    }
    auto* to = memory.as<SignedFactor>();
    for (int64_t group = 0; group < conv.groups; ++group) {
      for (int64_t chunk = 0; chunk < blocking.chunks; ++chunk) {
        const Range outputs = blocking.outputs_of(conv, group, chunk);
        blocking.for_each(
            conv, group, [](const BytePart&) {},
            [&](const BytePart& part) { to = pack(conv, weights, outputs, part, to); });
      }
    }
  }
  // Factors of all chunks.
  static int64_t size(const ConvShape& conv) {
    const ByteBlocking blocking(conv);
    int64_t rows = 0;  // groups may lie differently between offset groups
    for (int64_t group = 0; group < conv.groups; ++group) {
      blocking.for_each(
          conv, group, [](const BytePart&) {}, [&](const BytePart& part) { rows += part.row(); });
    }
    return rows * round_up(conv.group_outputs(), kPanel<int32_t>);
  }

  Scratch memory, totals;

 private:
  static SignedFactor* pack(const ConvShape& conv, const int8_t* weights, const Range& outputs,
                            const BytePart& part, SignedFactor* to) {
    constexpr int64_t P = kPanel<int32_t>;
    const int64_t C = conv.group_channels(), padded = part.padded();
    for (int64_t o = outputs.first; o < outputs.last; o += P) {
      std::fill_n(to, part.row() * P, SignedFactor{});
      for (int64_t lane = 0; lane < std::min(P, outputs.last - o); ++lane) {
        const int8_t* from = weights + ((o + lane) * C + part.channels.first % C) * conv.taps;
        for (int64_t k = 0; k < part.taps.count(); ++k) {
          for (int64_t c = 0; c < part.channels.count(); ++c) {
            const int64_t r = k * padded + c;
            to[(r / kFactors * P + lane) * kFactors + r % kFactors] =
                from[c * conv.taps + part.taps.first + k];
          }
        }
      }
      to += part.row() * P;
    }
    return to;
  }
};

class ByteConvolution {
 public:
  explicit ByteConvolution(KernelContext& context)
      : context_(context),
        conv_(context.attributes(), context.input(0), context.input(3), context.output(0)),
        blocking_(conv_),
        image_(context.input(0), context.input(2)),
        mask_limit_(static_cast<float>(context.attributes().real("mask_limit"))),
        out_(context.output(0)),
        tiling_(conv_, Blocking(conv_).tile_pixels<float>(
                           conv_, std::min(blocking_.outputs, conv_.group_outputs()), 64)) {
    positions_.offset = StridedView<const float>(context.input(5));
    positions_.mask = StridedView<const float>(context.input(7));
  }

  void run() {
    const auto* prepared = context_.prepared<PackedBytes>();
    std::optional<PackedBytes> own;
    if (prepared == nullptr) {
      const auto bytes = static_cast<size_t>(PackedBytes::size(conv_)) * sizeof(SignedFactor);
      own.emplace(conv_, context_.input(3), context_.scratch(bytes),
                  context_.scratch(static_cast<size_t>(conv_.outputs) * sizeof(int32_t)));
      prepared = &*own;
    }
    packed_ = prepared;
    const int64_t tiles = tiling_.count(), chunks = blocking_.chunks * conv_.groups;
    if (context_.reports()) report(!own);
    begins();
    Pool<Worker> workers;
    context_.parallel_for(conv_.batch * tiles * chunks, 1, [&](int64_t piece, int64_t) {
      std::unique_ptr<Worker> worker = workers.take([&] { return this->worker(); });
      const int64_t chunk = piece % chunks;
      run_tile(*worker, tiling_.at(piece / chunks / tiles, piece / chunks % tiles),
               chunk / blocking_.chunks, chunk);
      workers.give_back(std::move(worker));
    });
  }

 private:
  struct Worker {
    Buffer<int32_t> sums;
    ByteColumns columns;
  };
  int64_t sums_row() const {
    return round_up(std::min(blocking_.outputs, conv_.group_outputs()), kHalf<int32_t>);
  }
  Worker worker() const {
    return {Buffer<int32_t>(context_, tiling_.pixels() * sums_row() + kLanes<int32_t>),
            ByteColumns(context_, conv_, image_, positions_, mask_limit_, tiling_.pixels())};
  }
  // Where the weights of each chunk begin.
  void begins() {
    int64_t at = 0;
    for (int64_t group = 0; group < conv_.groups; ++group) {
      int64_t row = 0;
      blocking_.for_each(
          conv_, group, [](const BytePart&) {}, [&](const BytePart& part) { row += part.row(); });
      for (int64_t chunk = 0; chunk < blocking_.chunks; ++chunk) {
        begins_.push_back(at);
        const Range outputs = blocking_.outputs_of(conv_, group, chunk);
        at += row * round_up(outputs.count(), kPanel<int32_t>);
      }
    }
  }
  void report(bool prepared) const {
    const char* product = kFactors == 4 ? "byte_products" : "products_of_16_bits";
    context_.report(product, "Y",
                    str("blocks of ", blocking_.taps, " taps and ", blocking_.channels,
                        " channels, tiles of at most ", tiling_.pixels(), " pixels"));
    context_.report(prepared ? "packed_with_model" : "packed_once", "W",
                    str(static_cast<size_t>(PackedBytes::size(conv_)) * sizeof(SignedFactor),
                        " bytes", prepared ? ", constant" : ""));
  }

  void run_tile(Worker& worker, const Tile& tile, int64_t group, int64_t chunk) const {
    constexpr int64_t P = kPanel<int32_t>;
    const Range outputs = blocking_.outputs_of(conv_, group, chunk % blocking_.chunks);
    const int64_t width = round_up(outputs.count(), kHalf<int32_t>);
    const int64_t pixels = tile.pixels();
    int32_t* const sums = worker.sums.get();
    std::fill_n(sums, pixels * width, 0);
    ByteColumns& columns = worker.columns;
    const SignedFactor* weights =
        packed_->memory.as<SignedFactor>() + begins_[static_cast<size_t>(chunk)];
    blocking_.for_each(
        conv_, group, [&](const BytePart& part) { columns.place(conv_, tile, part); },
        [&](const BytePart& part) {
          columns.hold(part);
          const int64_t lanes = part.row() / kFactors;
          for (int64_t first = 0; first < pixels; first += columns.strip()) {
            const Range strip{first, std::min(first + columns.strip(), pixels)};
            const Factor* sampled = columns.sample(part, strip);
            multiply(strip.count(), width, Runs{1, lanes, 0},
                     MatrixView<int32_t>{reinterpret_cast<const int32_t*>(sampled), lanes},
                     reinterpret_cast<const int32_t*>(weights), P, lanes * P, sums + first * width,
                     width);
          }
          weights += part.row() * round_up(outputs.count(), P);
        });
    scale(outputs, width, pixels, sums);
    write(tile, outputs, width, reinterpret_cast<const float*>(sums));
  }

  // sums * scale + bias, in place.
  void scale(const Range& outputs, int64_t width, int64_t pixels, int32_t* sums) const {
    float factors[kByteOutputs + kPanel<int32_t>] = {}, bias[kByteOutputs + kPanel<int32_t>] = {};
    int32_t shift[kByteOutputs + kPanel<int32_t>] = {};
    const float x_scale = *context_.input(1).as<const float>() * mask_limit_;
    const Tensor &W_scale = context_.input(4), &B = context_.input(6);
    const int64_t step = W_scale.elements() == 1 ? 0 : 1;
    for (int64_t o = 0; o < outputs.count(); ++o) {
      const int64_t output = outputs.first + o;
      factors[o] = x_scale * W_scale.as<const float>()[output * step];
      if (B.present) bias[o] = B.as<const float>()[output];
      // Factors of bytes are samples - low.
      if (kFactors == 4) shift[o] = image_.low() * packed_->totals.as<int32_t>()[output];
    }
    constexpr int64_t H = kHalf<int32_t>;
    using I = Lanes<int32_t, H>;
    using V = Lanes<float, H>;
    for (int64_t p = 0; p < pixels; ++p, sums += width) {
      for (int64_t o = 0; o < width; o += H) {
        const I sum = load_as<I>(sums + o) + load_as<I>(shift + o);
        const V value = __builtin_convertvector(sum, V) * load_as<V>(factors + o);
        store(sums + o, value + load_as<V>(bias + o));
      }
    }
  }

  void write(const Tile& tile, const Range& outputs, int64_t width, const float* values) const {
    const bool whole = tile.columns == conv_.out_width && out_.step[2] == tile.columns;
    const int64_t rows = whole ? 1 : tile.rows, columns = tile.pixels() / rows;
    for (int64_t row = 0; row < rows; ++row, values += columns * width) {
      float* to = out_.at(tile.image, outputs.first, tile.top + row, tile.left);
      if (out_.step[1] != 1) {  // dense: either pixels or channels are contiguous
        pixels_to_planes(values, width, columns, outputs.count(), to, out_.step[1]);
        continue;
      }
      for (int64_t p = 0; p < columns; ++p, to += out_.step[3]) {
        std::copy_n(values + p * width, outputs.count(), to);
      }
    }
  }

  KernelContext& context_;
  const ConvShape conv_;
  const ByteBlocking blocking_;
  const ByteImage image_;
  float mask_limit_;
  Positions<float> positions_;
  StridedView<float> out_;
  Tiling tiling_;
  const PackedBytes* packed_ = nullptr;
  std::vector<int64_t> begins_;
};

Prepared prepare_int8(const PrepareContext& context) {
  const Tensor& W = context.constant(3);
  const int64_t group = context.attributes().integer("group");
  const int64_t offset_group = context.attributes().integer("offset_group");
  if (!W.present || W.dtype != DType::Int8 || W.rank() != 4 || W.elements() == 0) return nullptr;
  if (group < 1 || offset_group < 1 || W.shape[0] % group != 0) return nullptr;
  if (W.shape[1] * group % offset_group != 0) return nullptr;
  const ConvShape conv(context.attributes(), W);
  const auto bytes = static_cast<size_t>(PackedBytes::size(conv)) * sizeof(SignedFactor);
  return std::make_shared<PackedBytes>(
      conv, W, Scratch(bytes), Scratch(static_cast<size_t>(conv.outputs) * sizeof(int32_t)));
}

void forward_int8(KernelContext& context) { ByteConvolution(context).run(); }

}  // namespace myops::deform::MYOPS_ISA
