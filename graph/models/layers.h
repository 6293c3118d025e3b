#pragma once
/// Layers shared by several networks, recorded on a tape.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/models/networks.h"
#include "graph/tape/training_tape.h"

namespace emplace::models {

/// The scope level of an unrolled step: "t07".
std::string time_step(std::size_t t);

struct LstmState {
  Tensor h, c;  ///< [batch, hidden]
};

/// c' = σ(f) c + σ(i) tanh(g);   h' = σ(o) tanh(c')
///   torch:        [i f g o] = W_hh h + b_hh + W_ih x + b_ih
///   TensorFlow:   [i g f o] = W [x h] + b, and 1 is added to f (BasicLSTMCell)
class LstmCell {
 public:
  LstmCell(TrainingTape& tape, std::string name, std::int64_t inputs, std::int64_t hidden);
  LstmState zero_state(TrainingTape& tape, Tensor like, std::int64_t batch) const;
  /// Records one step in the scope of the cell's name.
  LstmState step(TrainingTape& tape, Tensor x, LstmState before) const;

 private:
  Tensor gates(TrainingTape& tape, Tensor x, Tensor h) const;  // Returns [batch, 4 hidden].

  std::string name_;
  std::int64_t hidden_;
  const bool joined_;                                         // Whether both inputs share one product.
  Tensor weight_{}, bias_{};                                  // Used if joined_.
  Tensor weight_ih_{}, weight_hh_{}, bias_ih_{}, bias_hh_{};  // Used if not joined_.
};

/// The sum over steps of the mean cross entropy.
///   logits  [steps] of [batch, vocabulary]
///   labels  [batch, steps]
Tensor sequence_loss(TrainingTape& tape, const std::vector<Tensor>& logits, Tensor labels);

/// Finishes a sequence model: the training step of its loss, or the forward pass to its logits.
Result<OpGraph> sequence_model(TrainingTape& tape, const std::vector<Tensor>& logits, Tensor labels,
                               Identity identity);
/// Finishes an image classifier: the training step of its cross entropy (an auxiliary head's has weight 0.4),
/// or the forward pass to its logits.
Result<OpGraph> classifier(TrainingTape& tape, Tensor logits, std::optional<Tensor> auxiliary,
                           Identity identity);

}  // namespace emplace::models
