#pragma once
/// Layers that several networks are made of, as they record themselves on a tape.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/models/training_tape.h"

namespace emplace::models {

/// The scope level of an unrolled step: "t07".
std::string time_step(std::size_t t);

struct LstmState {
  Tensor h, c;  ///< [batch, hidden]
};

/// [i f g o] = W_hh h + b_hh + W_ih x + b_ih;   c' = σ(f) c + σ(i) tanh(g);   h' = σ(o) tanh(c')
class LstmCell {
 public:
  LstmCell(TrainingTape& tape, std::string name, std::int64_t inputs, std::int64_t hidden);
  LstmState zero_state(TrainingTape& tape, Tensor like, std::int64_t batch) const;
  /// Its ops stand in the scope of the cell's name.
  LstmState step(TrainingTape& tape, Tensor x, LstmState before) const;

 private:
  std::string name_;
  std::int64_t hidden_;
  Tensor weight_ih_, weight_hh_, bias_ih_, bias_hh_;
};

/// Sum over the steps of the mean cross entropy.   logits [steps] of [batch, vocabulary];  labels [batch,
/// steps]
Tensor sequence_loss(TrainingTape& tape, const std::vector<Tensor>& logits, Tensor labels);

}  // namespace emplace::models
