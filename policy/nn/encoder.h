#pragma once
/// The Placer's encoder: layers of LSTMs that read the groups in order, one way or both.
///   Paper: ColocRL 2017, section 3.2 [COL-SEQ] (one way); Hierarchical 2018, section 2.2 (both ways);
///   Spotlight 2018, section 5.1 [SPO-SEQ] (two layers)

#include <string>
#include <vector>

#include "policy/nn/lstm.h"

namespace emplace::policy {

struct EncoderOptions {
  Eigen::Index in = 1;        ///< Rows of the input.
  Eigen::Index hidden = 256;  ///< H of each LSTM.
  std::size_t layers = 1;     ///< >= 1; each reads what the one below returns.
  bool bidirectional = true;  ///< A second LSTM per layer reads backwards; its rows lie below.
  Eigen::Index memory_rows() const { return bidirectional ? 2 * hidden : hidden; }
};

struct EncoderParameters {
  std::vector<LstmParameters> forward, backward;  ///< [layers]; backward is empty if it reads one way.
  static EncoderParameters add(ParameterStore& store, const std::string& name, const EncoderOptions& options,
                               std::uint64_t seed);
};

struct Encoded {
  Var memory;                       ///< E [memory_rows, T], of the top layer.
  std::vector<Var> last_h, last_c;  ///< [layers] of [memory_rows, 1]: where each layer ended, both ways.
};

/// `x` [in, T].
Encoded encode(Tape& tape, const EncoderParameters& parameters, Var x);

}  // namespace emplace::policy
