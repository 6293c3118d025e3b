#pragma once
/// Encoder of the Placer: LSTM layers that read the groups in order, in one or both directions.
///   Paper: ColocRL 2017, section 3.2 [COL-SEQ] (one direction); Hierarchical 2018, section 3
///   [HIE-ENCODER] (both); Spotlight 2018, section 5.1 [SPO-SEQ] (two layers)

#include <string>
#include <vector>

#include "policy/nn/lstm.h"

namespace emplace::policy {

struct EncoderOptions {
  Eigen::Index in = 1;        ///< Number of rows of the input.
  Eigen::Index hidden = 256;  ///< Hidden size H of each LSTM.
  std::size_t layers = 1;     ///< Number of layers, >= 1; each reads the output of the layer below.
  bool bidirectional = true;  ///< A second LSTM per layer reads backward; its rows follow those of the first.
  Eigen::Index memory_rows() const { return bidirectional ? 2 * hidden : hidden; }
};

struct EncoderParameters {
  std::vector<LstmParameters> forward, backward;  ///< [layers] `backward` is empty if unidirectional.
  static EncoderParameters add(ParameterStore& store, const std::string& name, const EncoderOptions& options,
                               std::uint64_t seed);
};

struct Encoded {
  Var memory;  ///< E [memory_rows, T]: output of the top layer.
  /// [layers] of [memory_rows, 1]: final states of each layer, both directions.
  std::vector<Var> last_h, last_c;
};

/// `x` [in, T].
Encoded encode(Tape& tape, const EncoderParameters& parameters, Var x);

}  // namespace emplace::policy
