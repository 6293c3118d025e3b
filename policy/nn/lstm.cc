#include "policy/nn/lstm.h"

#include <memory>
#include <utility>
#include <vector>

#include "policy/nn/product.h"

namespace emplace::policy {
namespace {

template <class Derived>
auto sigmoid(const Eigen::ArrayBase<Derived>& x) {
  return 0.5f * (0.5f * x).tanh() + 0.5f;  // One vectorised tanh; accurate enough for float32.
}

}  // namespace

LstmParameters LstmParameters::add(ParameterStore& store, const std::string& name, Eigen::Index in,
                                   Eigen::Index hidden, std::uint64_t seed) {
  LstmParameters p;
  p.hidden = hidden;
  p.wx = store.add(name + ".wx", 4 * hidden, in, Init::kGlorot, seed);
  p.wh = store.add(name + ".wh", 4 * hidden, hidden, Init::kGlorot, seed);
  p.b = store.add(name + ".b", 4 * hidden, 1, Init::kZero, seed);
  store.value(p.b).middleRows(hidden, hidden).setOnes();
  return p;
}

void lstm_forward(const Matrix& sums, const Matrix& c_before, LstmCell& cell) {
  const Eigen::Index h = sums.rows() / 4;
  cell.i = sigmoid(sums.middleRows(0, h).array());
  cell.f = sigmoid(sums.middleRows(h, h).array());
  cell.g = sums.middleRows(2 * h, h).array().tanh();
  cell.o = sigmoid(sums.middleRows(3 * h, h).array());
  cell.c = cell.f.array() * c_before.array() + cell.i.array() * cell.g.array();
  cell.tanh_c = cell.c.array().tanh();
  cell.h = cell.o.array() * cell.tanh_c.array();
}

Matrix lstm_backward(const LstmCell& cell, const Matrix& c_before, const Matrix& dh, Matrix& dc) {
  const Eigen::Index h = cell.h.rows();
  Matrix d(4 * h, cell.h.cols());
  dc.array() += dh.array() * cell.o.array() * (1.0f - cell.tanh_c.array().square());
  d.middleRows(0, h) = dc.array() * cell.g.array() * cell.i.array() * (1.0f - cell.i.array());
  d.middleRows(h, h) = dc.array() * c_before.array() * cell.f.array() * (1.0f - cell.f.array());
  d.middleRows(2 * h, h) = dc.array() * cell.i.array() * (1.0f - cell.g.array().square());
  d.middleRows(3 * h, h) = dh.array() * cell.tanh_c.array() * cell.o.array() * (1.0f - cell.o.array());
  dc.array() *= cell.f.array();
  return d;
}

Var lstm_sequence(Tape& tape, const LstmParameters& parameters, Var x, bool reversed, Var* last_c) {
  const Eigen::Index steps = tape.value(x).cols(), hidden = parameters.hidden;
  const Var wx = tape.parameter(parameters.wx), wh = tape.parameter(parameters.wh),
            b = tape.parameter(parameters.b);
  Matrix sums = tape.value(b).col(0).replicate(1, steps);
  add_product(sums, Packed{tape.value(wx)}, tape.value(x));
  const Packed recurrent{tape.value(wh)};
  auto cells = std::make_shared<std::vector<LstmCell>>(static_cast<std::size_t>(steps));
  const auto column = [steps, reversed](Eigen::Index s) { return reversed ? steps - 1 - s : s; };
  Matrix h = Matrix::Zero(hidden, 1), c = Matrix::Zero(hidden, 1), out(hidden, steps);
  for (Eigen::Index s = 0; s < steps; ++s) {
    LstmCell& cell = (*cells)[static_cast<std::size_t>(s)];
    Matrix sum = sums.col(column(s));
    add_product(sum, recurrent, h);
    lstm_forward(sum, c, cell);
    h = cell.h;
    c = cell.c;
    out.col(column(s)) = h.col(0);
  }
  // The gradient of the final c arrives through a separate tape step, recorded later and therefore run
  // earlier.
  auto dlast_c = std::make_shared<Matrix>(Matrix::Zero(hidden, 1));
  const Var y = tape.record(
      std::move(out), [&tape, wx, wh, b, x, cells, column, steps, hidden, dlast_c](const Matrix& dy) {
        const Matrix zero = Matrix::Zero(hidden, 1);
        const Packed recurrent_back = Packed::transposed(tape.value(wh));
        Matrix dh = zero, dc = *dlast_c;
        Matrix dsums(4 * hidden, steps);
        Matrix before(hidden, steps);  // h before each step, in that step's column.
        for (Eigen::Index s = steps - 1; s >= 0; --s) {
          const LstmCell* previous = s == 0 ? nullptr : &(*cells)[static_cast<std::size_t>(s - 1)];
          dh += dy.col(column(s));
          const Matrix d = lstm_backward((*cells)[static_cast<std::size_t>(s)],
                                         previous == nullptr ? zero : previous->c, dh, dc);
          dsums.col(column(s)) = d.col(0);
          before.col(column(s)) = previous == nullptr ? zero.col(0) : previous->h.col(0);
          dh.setZero();
          add_product(dh, recurrent_back, d);
        }
        const Packed flow{dsums};
        add_product_bt(tape.gradient(wx), flow, tape.value(x));
        add_product_bt(tape.gradient(wh), flow, before);
        tape.gradient(b) += dsums.rowwise().sum();
        if (tape.flows_into(x)) add_product(tape.gradient(x), Packed::transposed(tape.value(wx)), dsums);
      });
  if (last_c != nullptr) {
    *last_c = tape.record(std::move(c), [&tape, y, dlast_c](const Matrix& dc) {
      *dlast_c = dc;
      tape.gradient(y);  // Makes y's backward run even if y itself receives no gradient.
    });
  }
  return y;
}

}  // namespace emplace::policy
