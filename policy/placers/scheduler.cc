#include "policy/placers/scheduler.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace emplace::policy {
namespace {

constexpr Eigen::Index kDeviceFeatures = ScheduleWalk::kFeatures;

}  // namespace

SchedulerNetwork::SchedulerNetwork(ParameterStore& store, SchedulerShape shape, std::uint64_t seed)
    : shape_{shape} {
  const Eigen::Index e = shape.embedding, s = shape.hidden;
  const auto add = [&](const char* name, Eigen::Index rows, Eigen::Index cols, Init init) {
    return store.add(std::string{"scheduler."} + name, rows, cols, init, seed);
  };
  w0_ = add("w0", e, ScheduleWorld::kUnitFeatures, Init::kGlorot);
  b0_ = add("b0", e, 1, Init::kZero);
  ws_ = add("ws", e, e, Init::kGlorot);
  wp_ = add("wp", e, e, Init::kGlorot);
  wt_ = add("wt", e, e, Init::kGlorot);
  b_ = add("b", e, 1, Init::kZero);
  wf_ = add("wf", s, kDeviceFeatures, Init::kGlorot);
  we_ = add("we", s, e, Init::kGlorot);
  b1_ = add("b1", s, 1, Init::kZero);
  w2_ = add("w2", s, s, Init::kGlorot);
  wm_ = add("wm", s, s, Init::kGlorot);
  b2_ = add("b2", s, 1, Init::kZero);
  w3_ = add("w3", s, 1, Init::kZero);
  v_ = add("v", kDeviceFeatures, 1, Init::kZero);
  MatrixMap v = store.value(v_);
  v(ScheduleWalk::kLater, 0) = -8;
  v(ScheduleWalk::kCut, 0) = -3;
  v(ScheduleWalk::kLoad, 0) = -0.5f;
}

Matrix SchedulerNetwork::gathered(const ScheduleWorld& world, const Matrix& h, Side side, bool transposed) {
  Matrix sum = Matrix::Zero(h.rows(), h.cols());
  for (std::size_t u = 0; u < world.num_units(); ++u) {
    const auto own = static_cast<Eigen::Index>(u);
    for (const ScheduleWorld::Neighbour& each :
         side == Side::kSources ? world.sources(u) : world.targets(u)) {
      const auto other = static_cast<Eigen::Index>(each.unit);
      if (transposed) {
        sum.col(other) += each.weight * h.col(own);
      } else {
        sum.col(own) += each.weight * h.col(other);
      }
    }
  }
  return sum;
}

SchedulerNetwork::Embedded SchedulerNetwork::embed(const ParameterStore& store,
                                                   const ScheduleWorld& world) const {
  Embedded embedded;
  Matrix h = ((store.value(w0_) * world.features()).colwise() + store.value(b0_).col(0)).cwiseMax(0.0f);
  embedded.gate.push_back(h);
  embedded.h.push_back(h);
  for (std::size_t round = 0; round < shape_.rounds; ++round) {
    Matrix next = store.value(ws_) * h;
    next.noalias() += store.value(wp_) * gathered(world, h, Side::kSources, false);
    next.noalias() += store.value(wt_) * gathered(world, h, Side::kTargets, false);
    next = (next.colwise() + store.value(b_).col(0)).cwiseMax(0.0f);
    h += next;
    embedded.gate.push_back(std::move(next));
    embedded.h.push_back(h);
  }
  embedded.seen = (store.value(we_) * h).colwise() + store.value(b1_).col(0);
  return embedded;
}

SchedulerDrawn SchedulerNetwork::draw(const ParameterStore& store, const ScheduleWorld& world,
                                      const Embedded& embedded, const SchedulerDraw& how,
                                      SchedulerTrace* trace) const {
  const Matrix wf = store.value(wf_), w2 = store.value(w2_), wm = store.value(wm_);
  const Eigen::VectorXf b2 = store.value(b2_), w3 = store.value(w3_), v = store.value(v_);
  const auto devices = static_cast<Eigen::Index>(world.num_devices());
  Matrix z(shape_.hidden, devices), y(shape_.hidden, devices);
  Eigen::VectorXf mean(shape_.hidden), logit(devices);
  ScheduleWalk walk{world, how.start, how.reserved};
  SchedulerDrawn drawn;
  while (!walk.done()) {
    const std::uint32_t unit = walk.unit();
    walk.evaluate();
    const auto open = walk.open();
    const auto n = static_cast<Eigen::Index>(open.size());
    std::size_t taken = 0;
    if (n > 1) {
      const auto f = walk.features();
      z.leftCols(n).noalias() = wf.lazyProduct(f);
      z.leftCols(n) = (z.leftCols(n).colwise() + embedded.seen.col(unit)).cwiseMax(0.0f);
      mean.noalias() = wm.lazyProduct(z.leftCols(n).rowwise().mean()) + b2;
      y.leftCols(n).noalias() = w2.lazyProduct(z.leftCols(n));
      y.leftCols(n) = (y.leftCols(n).colwise() + mean).cwiseMax(0.0f);
      auto p = logit.head(n);
      p.noalias() = y.leftCols(n).transpose() * w3 + f.transpose() * v;
      p *= how.sharpness;
      if (how.stay != 0 && !how.start.empty()) p += how.stay * f.row(ScheduleWalk::kAtStart).transpose();
      Eigen::Index best = 0;
      p = (p.array() - p.maxCoeff(&best)).exp();
      p /= p.sum();
      taken = static_cast<std::size_t>(best);
      if (how.rng != nullptr) {
        const float at = how.rng->uniform();
        float sum = 0;
        for (Eigen::Index d = 0; d < n; ++d) {
          sum += p[d];
          if (sum <= at) continue;
          taken = static_cast<std::size_t>(d);
          break;
        }
      }
      bool follows = true;
      if (!how.forced.empty()) {
        const auto wanted = std::find(open.begin(), open.end(), how.forced[unit]);
        follows = wanted != open.end();
        if (follows) taken = static_cast<std::size_t>(wanted - open.begin());
      }
      if (follows) drawn.log_probability += std::log(std::max(1e-30f, p[static_cast<Eigen::Index>(taken)]));
      if (trace != nullptr && follows) {
        const auto first = trace->begin.back();
        trace->features.insert(trace->features.end(), f.data(), f.data() + f.size());
        trace->probability.insert(trace->probability.end(), p.data(), p.data() + n);
        trace->device.insert(trace->device.end(), open.begin(), open.end());
        trace->begin.push_back(first + static_cast<std::uint32_t>(n));
        trace->unit.push_back(unit);
        trace->chosen.push_back(first + static_cast<std::uint32_t>(taken));
      }
    }
    walk.take(open[taken]);
  }
  drawn.device_of_unit = walk.device_of_unit();
  drawn.estimated_s = walk.end_ns() * 1e-9;
  drawn.overflowed = walk.overflowed();
  return drawn;
}

double SchedulerNetwork::accumulate(ParameterStore& store, const Embedded& embedded,
                                    const SchedulerTrace& trace, float advantage, float entropy,
                                    Flow& flow) const {
  if (flow.h.size() == 0) flow.h = Matrix::Zero(shape_.embedding, embedded.seen.cols());
  if (trace.choices() == 0) return 0;
  const auto pairs = static_cast<Eigen::Index>(trace.begin.back());
  const auto choices = static_cast<Eigen::Index>(trace.choices());
  const Eigen::Map<const Matrix> f{trace.features.data(), kDeviceFeatures, pairs};
  const Matrix w2 = store.value(w2_), wm = store.value(wm_), we = store.value(we_);
  const Eigen::VectorXf b2 = store.value(b2_), w3 = store.value(w3_), v = store.value(v_);

  // Forward.
  Matrix z = store.value(wf_) * f, means(shape_.hidden, choices), units(shape_.embedding, choices);
  const auto range = [&](Eigen::Index c) {
    const std::uint32_t first = trace.begin[static_cast<std::size_t>(c)];
    return std::pair{static_cast<Eigen::Index>(first),
                     static_cast<Eigen::Index>(trace.begin[static_cast<std::size_t>(c) + 1] - first)};
  };
  for (Eigen::Index c = 0; c < choices; ++c) {
    const auto [first, n] = range(c);
    const auto unit = static_cast<Eigen::Index>(trace.unit[static_cast<std::size_t>(c)]);
    auto part = z.middleCols(first, n);
    part = (part.colwise() + embedded.seen.col(unit)).cwiseMax(0.0f);
    means.col(c) = part.rowwise().mean();
    units.col(c) = embedded.h.back().col(unit);
  }
  Matrix y = w2 * z;
  const Matrix shared = (wm * means).colwise() + b2;
  for (Eigen::Index c = 0; c < choices; ++c) {
    const auto [first, n] = range(c);
    auto part = y.middleCols(first, n);
    part = (part.colwise() + shared.col(c)).cwiseMax(0.0f);
  }
  Eigen::VectorXf score = y.transpose() * w3 + f.transpose() * v, ds(pairs);

  // Gradient of the loss with respect to the scores.
  double loss = 0;
  const float share = 1 / static_cast<float>(choices);
  for (Eigen::Index c = 0; c < choices; ++c) {
    const auto [first, n] = range(c);
    Eigen::VectorXf p = score.segment(first, n);
    p = (p.array() - p.maxCoeff()).exp();
    p /= p.sum();
    const Eigen::VectorXf log_p = p.cwiseMax(1e-30f).array().log();
    const float negative = p.dot(log_p);  // -H
    const auto chosen = static_cast<Eigen::Index>(trace.chosen[static_cast<std::size_t>(c)]) - first;
    loss -= static_cast<double>(log_p[chosen]);
    auto out = ds.segment(first, n);
    out = advantage * p;
    out[chosen] -= advantage;
    out.array() += entropy * p.array() * (log_p.array() - negative);
    out *= share;
  }

  // Backward.
  store.gradient(w3_).noalias() += y * ds;
  store.gradient(v_).noalias() += f * ds;
  const Matrix dy = ((w3 * ds.transpose()).array() * (y.array() > 0).cast<float>()).matrix();
  store.gradient(w2_).noalias() += dy * z.transpose();
  Matrix dshared(shape_.hidden, choices), dz = w2.transpose() * dy, dunit(shape_.hidden, choices);
  for (Eigen::Index c = 0; c < choices; ++c) {
    const auto [first, n] = range(c);
    dshared.col(c) = dy.middleCols(first, n).rowwise().sum();
  }
  store.gradient(b2_).col(0) += dshared.rowwise().sum();
  store.gradient(wm_).noalias() += dshared * means.transpose();
  const Matrix dmeans = wm.transpose() * dshared;
  for (Eigen::Index c = 0; c < choices; ++c) {
    const auto [first, n] = range(c);
    auto part = dz.middleCols(first, n);
    part.colwise() += dmeans.col(c) / static_cast<float>(n);
    part = (part.array() * (z.middleCols(first, n).array() > 0).cast<float>()).matrix();
    dunit.col(c) = part.rowwise().sum();
  }
  store.gradient(wf_).noalias() += dz * f.transpose();
  store.gradient(b1_).col(0) += dunit.rowwise().sum();
  store.gradient(we_).noalias() += dunit * units.transpose();
  const Matrix dh = we.transpose() * dunit;
  for (Eigen::Index c = 0; c < choices; ++c) flow.h.col(trace.unit[static_cast<std::size_t>(c)]) += dh.col(c);
  return loss;
}

void SchedulerNetwork::finish(ParameterStore& store, const ScheduleWorld& world, const Embedded& embedded,
                              Flow flow) const {
  Matrix dh = std::move(flow.h);
  if (dh.size() == 0) return;
  const Matrix ws = store.value(ws_), wp = store.value(wp_), wt = store.value(wt_);
  for (std::size_t round = shape_.rounds; round-- > 0;) {
    const Matrix& before = embedded.h[round];
    const Matrix dgate = (dh.array() * (embedded.gate[round + 1].array() > 0).cast<float>()).matrix();
    store.gradient(b_).col(0) += dgate.rowwise().sum();
    store.gradient(ws_).noalias() += dgate * before.transpose();
    store.gradient(wp_).noalias() += dgate * gathered(world, before, Side::kSources, false).transpose();
    store.gradient(wt_).noalias() += dgate * gathered(world, before, Side::kTargets, false).transpose();
    dh.noalias() += ws.transpose() * dgate;
    dh += gathered(world, wp.transpose() * dgate, Side::kSources, true);
    dh += gathered(world, wt.transpose() * dgate, Side::kTargets, true);
  }
  const Matrix dgate = (dh.array() * (embedded.gate[0].array() > 0).cast<float>()).matrix();
  store.gradient(b0_).col(0) += dgate.rowwise().sum();
  store.gradient(w0_).noalias() += dgate * world.features().transpose();
}

}  // namespace emplace::policy
