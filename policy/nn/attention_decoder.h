#pragma once
/// The Placer's decoder: LSTM layers that choose one device per group while they attend to all groups, fused
/// forwards and backwards over the whole sequence, k samples as columns.
///   u_t = e(d_{t-1}) + w_t           the device just chosen, and (optionally) the group at hand
///   h_t, c_t = LSTM(u_t, h_{t-1}, c_{t-1})          further layers read the h_t of the layer below
///   a_tg = softmax_g v·tanh(M E_g + Q h_t),   z_t = Σ_g a_tg E_g
///   l_t = W [h_t; z_t] + b,   logits = C·tanh(l_t / T) + s_t + noise,   d_t ~ softmax over the allowed
///   devices
///                                      Paper: Hierarchical 2018, section 2.2, after Bahdanau 2015
///                                      [HIE-DECODER]; with C = 0, logits = l_t + s_t + noise:
///                                      ColocRL 2017, section 3.2 [COL-SEQ], two layers: Spotlight 2018,
///                                      section 5.1 [SPO-SEQ]

#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "policy/nn/lstm.h"

namespace emplace::policy {

struct DecoderOptions {
  Eigen::Index hidden = 256;       ///< H, of the LSTMs and the attention.
  Eigen::Index devices = 2;        ///< D
  Eigen::Index memory_rows = 512;  ///< Rows of the encoder's output E.
  float tanh_constant = 5;         ///< C; 0: logits are not squashed, and T has no meaning.
  float temperature = 10;          ///< T
  bool sees_group = false;         ///< Feed E_t into step t beside the device; the paper does not.
  std::size_t layers = 1;          ///< Of the LSTM, >= 1.
  Init out = Init::kGlorot;        ///< Of W. kZero: every distribution starts uniform.
};

struct DecoderParameters {
  std::vector<LstmParameters> lstm;  ///< [layers]
  ParameterId embedding;             ///< [H, D + 1] devices, then the start symbol.
  ParameterId group;                 ///< [H, memory_rows] maps E_t to w_t; only if sees_group.
  ParameterId memory;                ///< M [H, memory_rows]
  ParameterId query;                 ///< Q [H, H]
  ParameterId score;                 ///< v [H, 1]
  ParameterId out;                   ///< W [D, H + memory_rows]
  ParameterId bias;                  ///< b [D, 1]
  static DecoderParameters add(ParameterStore& store, const std::string& name, const DecoderOptions& options,
                               std::uint64_t seed);
};

/// What a decoding is given besides the groups.
struct DecodeInput {
  Eigen::Index samples = 1;                           ///< k
  const std::vector<std::uint8_t>* chosen = nullptr;  ///< [k, T] row-major devices; null: they are drawn.
  bool greedy = false;  ///< Take the likeliest device of each step instead of drawing.
  Rng* rng = nullptr;   ///< To draw with; needed if nothing is chosen and not greedy.
  float noise = 0;      ///< Deviation of normal noise on the logits while drawing.
  const std::vector<std::vector<bool>>* allowed = nullptr;  ///< [T][D]; null: all.
  std::vector<Var> start_h, start_c;  ///< [layers] of [H, 1]: the state before step 0; empty: zero.
  /// Samples run in blocks, on so many threads: forwards and backwards. The bits do not depend on it.
  std::size_t threads = 1;
};

struct Decoded {
  std::vector<std::uint8_t> devices;  ///< [k, T] row-major.
  /// log π of every device at every step, without noise: [D, k · T], column sample · T + step, -1e30 where
  /// forbidden. Seed its gradient with d/d log π; what is seeded where forbidden goes nowhere.
  Var log_p;
};

/// Decodes over `memory` E [memory_rows, T] and `shift` s [D, T] (added to the logits). Records one step on
/// the tape, that of log_p. Errors: none. @pre T >= 1. Thread: one; starts threads of its own if asked to.
Decoded decode(Tape& tape, const DecoderParameters& parameters, const DecoderOptions& options, Var memory,
               Var shift, const DecodeInput& input);

}  // namespace emplace::policy
