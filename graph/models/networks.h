#pragma once
/// Networks that can be recorded as training steps (forward, backward and update) or as the forward pass
/// alone. Every function is a pure function of its options. Errors (kInvalid): a size out of range.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"
#include "graph/tape/training_tape.h"

namespace emplace::models {

/// Sequence to sequence with attention: stacked LSTM encoder (first layer bidirectional), stacked LSTM
/// decoder that receives the previous context, residual connections from the third layer on, one softmax per
/// step; unrolled.
struct NmtOptions {
  std::int64_t layers = 2;     ///< Layers of encoder and of decoder; 1 … 99.
  std::int64_t steps = 40;     ///< Unrolled length; 1 … 99.
  std::int64_t hidden = 1024;  ///< Hidden size; even.
  std::int64_t batch = 64;
  std::int64_t vocabulary = 32000;
  Optimizer optimizer = Optimizer::kAdam;
  Recording recording = {};
};
/// With layers = 2 and the defaults this equals nmt-2layer-bs64 op for op (tests/graph). In TensorFlow's
/// granularity sentences have lengths, as with dynamic_rnn: states stay unchanged beyond a sentence's end.
Result<OpGraph> nmt_graph(const NmtOptions& options, Identity identity);

/// One node of a recurrent cell from neural architecture search: node k > 0 reads node `input` < k; node 0
/// reads the layer's input and its previous output (and ignores `input`).
///   h = h_in + c (f(u) − h_in),   [c u] = W h_in,  c through a sigmoid
/// Paper: ENAS 2018, section 2.1
enum class Activation : std::uint8_t { kTanh, kRelu, kIdentity, kSigmoid };
struct RecurrentNode {
  std::uint32_t input = 0;
  Activation activation = Activation::kTanh;
  bool operator==(const RecurrentNode&) const = default;
};
/// A language model of such cells; a cell's output is the mean of its unread nodes.
struct CellRnnOptions {
  std::vector<RecurrentNode> nodes;  ///< Nodes, at least one; the wiring is the same in every layer and step.
  std::int64_t layers = 1;
  std::int64_t steps = 35;
  std::int64_t hidden = 1024;
  std::int64_t batch = 64;
  std::int64_t vocabulary = 10000;
  Optimizer optimizer = Optimizer::kSgd;
};
/// Errors: also for a node that reads a node that does not precede it.
Result<OpGraph> cell_rnn_graph(const CellRnnOptions& options, Identity identity);

/// The op on an edge of a convolutional cell.
enum class CellOp : std::uint8_t { kIdentity, kAvgPool3, kMaxPool3, kSepConv3, kSepConv5, kSepConv7 };
/// The sum of two earlier states, each passed through an op. States 0 and 1 are the cell's inputs (0: the
/// previous cell, 1: the one before), state 2 + k is block k.
struct CellBlock {
  std::array<std::uint32_t, 2> inputs{};
  std::array<CellOp, 2> ops{};
  bool operator==(const CellBlock&) const = default;
};
/// NASNet's architecture for 32x32 images: three stacks of normal cells with reduction cells between them; a
/// cell's output concatenates the states that no block reads.
/// Paper: NASNet 2018, figure 2; ENAS 2018
struct CellNetOptions {
  std::vector<CellBlock> normal, reduction;  ///< Blocks, at least one each.
  std::int64_t repeats = 6;                  ///< Normal cells per stack.
  std::int64_t filters = 32;                 ///< Filters of the first stack, doubled at each reduction; even.
  std::int64_t stem_channels = 96;
  std::int64_t batch = 32;
  std::int64_t classes = 10;
  Optimizer optimizer = Optimizer::kMomentum;
  Recording recording = {};
};
/// Errors: also for a block that reads a state that does not precede it.
Result<OpGraph> cell_net_graph(const CellNetOptions& options, Identity identity);

/// NASNet-A for 32x32 images: 96 stem channels, 32 filters; momentum.
/// Paper: NASNet 2018, figure 4
struct NasnetOptions {
  std::int64_t repeats = 6;  ///< Normal cells per stack, 1 … 99.
  std::int64_t batch = 32;
  Optimizer optimizer = Optimizer::kMomentum;
  Recording recording = {};
};
Result<OpGraph> nasnet_a_graph(const NasnetOptions& options, Identity identity);

/// Two convolutions and three fully connected layers on 32x32 images, as in TensorFlow's tutorial; SGD.
struct Cifar10CnnOptions {
  std::int64_t batch = 128;
  /// Parts of the convolutions, with their pools and norms; a divisor of 64. A part has its share of the
  /// channels and reads its own part of the layer before; the first convolution's parts read the whole image,
  /// the fully connected layers all parts.
  /// Paper: Spotlight 2018, section 5.5  [SPO-SPLIT]
  std::int64_t split = 1;
  Optimizer optimizer = Optimizer::kSgd;
  Recording recording = {};
};
Result<OpGraph> cifar10_cnn_graph(const Cifar10CnnOptions& options, Identity identity);

/// ResNet-152: bottlenecks in stages of 3, 8, 36 and 3; 224x224 images, 1000 classes; momentum.
/// Paper: He et al. 2016, table 1
struct Resnet152Options {
  std::int64_t batch = 128;
  Optimizer optimizer = Optimizer::kMomentum;
  Recording recording = {};
};
Result<OpGraph> resnet152_graph(const Resnet152Options& options, Identity identity);

/// Inception-v3: 299x299 images, 1000 classes; RMSProp. Trains with its auxiliary head unless the batch is 1,
/// which that head's batch norm cannot normalise.
/// Paper: Szegedy et al. 2016
struct InceptionV3Options {
  std::int64_t batch = 32;
  Optimizer optimizer = Optimizer::kRmsProp;
  Recording recording = {};
};
Result<OpGraph> inception_v3_graph(const InceptionV3Options& options, Identity identity);

/// A language model of stacked LSTM cells, unrolled; SGD.
/// Paper: Jozefowicz et al. 2016
struct RnnlmOptions {
  std::int64_t layers = 2;  ///< LSTM layers, 1 … 99.
  std::int64_t steps = 40;  ///< Unrolled length, 1 … 99.
  std::int64_t hidden = 2048;
  std::int64_t batch = 64;
  std::int64_t vocabulary = 10000;
  Optimizer optimizer = Optimizer::kSgd;
  Recording recording = {};
};
Result<OpGraph> rnnlm_graph(const RnnlmOptions& options, Identity identity);

}  // namespace emplace::models
