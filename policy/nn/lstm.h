#pragma once
/// Long short-term memory, over a sequence as one fused step or cell by cell.
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

/// What one cell leaves for its backward. All [H, B].
struct LstmCell {
  Matrix i, f, g, o, c, tanh_c, h;
};

/// One step from the gates' sums [4H, B] and the state before it.
void lstm_forward(const Matrix& sums, const Matrix& c_before, LstmCell& cell);
/// `dh`, `dc` [H, B] flow in (dc is replaced by what flows to c_before); returns the gradient of the sums
/// [4H, B].
Matrix lstm_backward(const LstmCell& cell, const Matrix& c_before, const Matrix& dh, Matrix& dc);

/// The whole sequence, one column of `x` [in, T] per step, from a zero state, forwards or backwards. Returns
/// h [H, T]; `last_c`, if asked for, becomes c [H, 1] after the last step.
Var lstm_sequence(Tape& tape, const LstmParameters& parameters, Var x, bool reversed, Var* last_c = nullptr);

}  // namespace emplace::policy
