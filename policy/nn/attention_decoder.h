#pragma once
/// Decoder of the Placer: LSTM layers that choose one device per group while attending to all groups. Forward
/// and backward passes are fused over the whole sequence; the k samples are columns.
///
///   u_t = e(d_{t-1}) + w_t           the previous device, and (optionally) the current group
///   h_t, c_t = LSTM(u_t, h_{t-1}, c_{t-1})          further layers read the h_t of the layer below
///   a_tg = softmax_g v·tanh(M E_g + Q h_t),   z_t = Σ_g a_tg E_g
///     or, by dot product, a_tg = softmax_g <tanh(M E_g), tanh(Q h_t)>        Chan 2015, Eqs. 9–11
///     [SPO-ATTEND]
///   l_t = W [h_t; z_t] + b,   logits = C·tanh(l_t / T) + s_t + noise,   d_t ~ softmax over the allowed
///   devices
///                                      Paper: Hierarchical 2018, section 2, Eq. 1 [HIE-DECODER] [HIE-1];
///                                      with C = 0, logits = l_t + s_t + noise: ColocRL 2017, section 3.2
///                                      [COL-SEQ], two layers: Spotlight 2018, section 5.1 [SPO-SEQ]
/// The attention is Bahdanau's of 2015, but by the current state h_t, and its context enters only the output.

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/settings.h"
#include "policy/nn/lstm.h"

namespace emplace::policy {

/// Score of a group in the attention.
enum class Attention : std::uint8_t {
  kAdditive,  ///< v·tanh(M E_g + Q h_t)
  kDot,       ///< <tanh(M E_g), tanh(Q h_t)>
};
constexpr auto enum_words(Attention) {
  return EnumWords{"attention",
                   std::array{EnumWord{Attention::kAdditive, "additive"}, EnumWord{Attention::kDot, "dot"}}};
}

struct DecoderNetwork {
  Eigen::Index hidden = 256;  ///< Hidden size H of the LSTMs and of the attention.
  std::size_t layers = 1;     ///< Number of LSTM layers, >= 1.
  float tanh_constant = 5;    ///< C; 0: logits are not squashed, and T is unused.
  float temperature = 10;     ///< T
  /// Add the embedding of the current group (from E_t) to the input of step t; the paper does not.
  bool sees_group = false;
  Init out = Init::kGlorot;  ///< Initialisation of W. kZero: every distribution starts (nearly) uniform.
  Attention attention = Attention::kAdditive;
};
struct DecoderOptions : DecoderNetwork {
  Eigen::Index devices = 2;        ///< D
  Eigen::Index memory_rows = 512;  ///< Rows of the encoder's output E.
};

struct DecoderParameters {
  std::vector<LstmParameters> lstm;  ///< [layers]
  ParameterId embedding;             ///< [H, D + 1] One column per device, then the start symbol.
  ParameterId group;                 ///< [H, memory_rows] Maps E_t to w_t; empty unless sees_group.
  ParameterId memory;                ///< M [H, memory_rows]
  ParameterId query;                 ///< Q [H, H]
  ParameterId score;                 ///< v [H, 1]; empty for kDot.
  ParameterId out;                   ///< W [D, H + memory_rows]
  ParameterId bias;                  ///< b [D, 1]
  static DecoderParameters add(ParameterStore& store, const std::string& name, const DecoderOptions& options,
                               std::uint64_t seed);
};

/// Inputs of decode() besides the groups.
struct DecodeInput {
  Eigen::Index samples = 1;                           ///< k
  const std::vector<std::uint8_t>* chosen = nullptr;  ///< [k, T] Row-major devices; null: devices are drawn.
  bool greedy = false;    ///< Take the most likely device at each step instead of drawing.
  Rng* rng = nullptr;     ///< Random generator; required unless `chosen` or `greedy` is set.
  float noise = 0;        ///< Standard deviation of the normal noise on the logits while drawing.
  float noise_limit = 0;  ///< The noise is cut at this amplitude; 0: not cut.
  /// `noise` and `noise_limit` are shares of the root mean square of a choice's logits over the allowed
  /// devices. This noise is part of log π, also of `chosen` devices; those then need the generator that drew
  /// them, in the state of that time. The gradient takes the noise as constant.
  bool relative_noise = false;
  const std::vector<std::vector<bool>>* allowed = nullptr;  ///< [T][D]; null: all.
  std::vector<Var> start_h, start_c;  ///< [layers] of [H, 1] State before step 0; empty: zero.
  /// Number of threads for both passes; each runs blocks of samples. The result is bit-identical for any
  /// number.
  std::size_t threads = 1;
};

struct Decoded {
  std::vector<std::uint8_t> devices;  ///< [k, T] row-major.
  /// log π of every device at every step, without noise unless that is relative: [D, k · T], column sample ·
  /// T + step, -1e30 where forbidden. Set its gradient to d/d log π; the gradient of forbidden devices is
  /// ignored.
  Var log_p;
};

/// Decodes over `memory` E [memory_rows, T] and `shift` s [D, T], which is added to the logits. Records one
/// tape step, log_p. Errors: none. @pre T >= 1. Thread: one; starts `threads` - 1 further threads.
Decoded decode(Tape& tape, const DecoderParameters& parameters, const DecoderOptions& options, Var memory,
               Var shift, const DecodeInput& input);

}  // namespace emplace::policy
