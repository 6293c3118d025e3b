#pragma once
/// Long short-term memory, over a sequence as one fused step or one cell at a time.
///   [i f g o] = Wx x + Wh h' + b;   c = σ(f)∘c' + σ(i)∘tanh(g);   h = σ(o)∘tanh(c)

#include <string>

#include "policy/nn/tape.h"

namespace emplace::policy {

/// Wx [4H, in], Wh [4H, H], b [4H, 1]; gates in the order i, f, g, o. The forget gate starts at bias 1.
struct LstmParameters {
  ParameterId wx, wh, b;
  Eigen::Index hidden = 0;
  static LstmParameters add(ParameterStore& store, const std::string& name, Eigen::Index in,
                            Eigen::Index hidden, std::uint64_t seed);
};

/// Activations of one cell for its backward pass. All [H, B].
struct LstmCell {
  Matrix i, f, g, o, c, tanh_c, h;
};

/// One step from the gate sums [4H, B] and the previous c.
void lstm_forward(const Matrix& sums, const Matrix& c_before, LstmCell& cell);
/// Backward pass of one step. `dh`, `dc` [H, B] are the gradients of h and c; `dc` is replaced by that of
/// `c_before`. Returns the gradient of the gate sums [4H, B].
Matrix lstm_backward(const LstmCell& cell, const Matrix& c_before, const Matrix& dh, Matrix& dc);

/// Runs a whole sequence from a zero state, forward or reversed; one column of `x` [in, T] per step. Returns
/// h [H, T]. If `last_c` is not null, it is set to c [H, 1] after the last step.
Var lstm_sequence(Tape& tape, const LstmParameters& parameters, Var x, bool reversed, Var* last_c = nullptr);

}  // namespace emplace::policy
