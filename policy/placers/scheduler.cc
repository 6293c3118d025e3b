#include "policy/placers/scheduler.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace emplace::policy {
namespace {

constexpr Eigen::Index kDeviceFeatures = ScheduleWalk::kFeatures;
constexpr float kLeave = -1e4f;  // Logit of a device that a unit must leave.
using W = ScheduleWalk;
struct Weight {
  Eigen::Index feature;
  float value;
};
using Rule = std::vector<Weight>;

/// Rules at which heads start: what list schedulers and partitioners would do.
const std::vector<Rule>& founding_rules() {
  static const std::vector<Rule> rules{
      // Finish first, send little, balance.
      {{W::kLater, -8}, {W::kMoreCut, -3}, {W::kMoreLoad, -0.5f}},
      // Finish first.
      {{W::kLaterOfAll, -8}, {W::kLonger, -2}, {W::kMoreCut, -0.5f}},
      // Send little.
      {{W::kMoreCutOfAll, -8}, {W::kLaterOfAll, -1}, {W::kMoreLoad, -1}},
      // Balance.
      {{W::kMoreLoad, -8}, {W::kMoreCutOfAll, -2}, {W::kLater, -1}},
      // Few devices.
      {{W::kUsed, 4}, {W::kLater, -4}, {W::kMoreCut, -2}, {W::kLast, 1}},
      // Stay on the last device until it has its share.
      {{W::kLast, 3}, {W::kLoaded, -6}, {W::kMoreCut, -2}, {W::kSlower, -1}},
      // Fast devices.
      {{W::kSlower, -8}, {W::kSpeed, 2}, {W::kUnitLater, -4}, {W::kMoreCutOfAll, -1}},
      // Where memory is.
      {{W::kFree, 4}, {W::kNeeds, -2}, {W::kMoreCut, -3}, {W::kLater, -3}},
  };
  return rules;
}

const std::vector<Rule>& improving_rules() {
  static const std::vector<Rule> rules{
      {{W::kStartFull, -4}, {W::kAtStart, 1}, {W::kLater, -8}, {W::kStartOwnCut, -3}, {W::kStartLoad, -1}},
      {{W::kStartFull, -4}, {W::kAtStart, 2}, {W::kLaterOfAll, -6}, {W::kTooLate, -3}, {W::kStartCut, -2}},
      {{W::kStartFull, -4},
       {W::kAtStart, 0.5f},
       {W::kStartCut, -6},
       {W::kStartLoad, -3},
       {W::kLaterOfAll, -1}},
      {{W::kStartFull, -4},
       {W::kAtStart, 3},
       {W::kTooLate, -4},
       {W::kStartLoad, -2},
       {W::kStartOwnCut, -2},
       {W::kUnitLater, -2}},
  };
  return rules;
}

/// The choice at which a uniform number ends in probabilities that sum to 1; `likeliest` if rounding leaves
/// it above all.
std::size_t drawn_choice(std::span<const float> probability, std::size_t likeliest, Rng& rng) {
  const float at = rng.uniform();
  float sum = 0;
  for (std::size_t choice = 0; choice < probability.size(); ++choice) {
    sum += probability[choice];
    if (sum > at) return choice;
  }
  return likeliest;
}

/// Appends a choice between the open devices.
void note_choice(SchedulerTrace& trace, const ScheduleWalk& walk, std::span<const float> probability,
                 std::size_t taken) {
  const auto f = walk.features();
  const auto first = trace.begin.back();
  trace.features.insert(trace.features.end(), f.data(), f.data() + f.size());
  trace.probability.insert(trace.probability.end(), probability.begin(), probability.end());
  trace.device.insert(trace.device.end(), walk.open().begin(), walk.open().end());
  trace.begin.push_back(first + static_cast<std::uint32_t>(probability.size()));
  trace.unit.push_back(walk.unit());
  trace.chosen.push_back(first + static_cast<std::uint32_t>(taken));
}

}  // namespace

SchedulerNetwork::SchedulerNetwork(ParameterStore& store, SchedulerShape shape, std::uint64_t seed)
    : shape_{shape} {
  const Eigen::Index e = shape.embedding, c = shape.code, heads = static_cast<Eigen::Index>(shape.heads());
  const auto add = [&](const char* name, Eigen::Index rows, Eigen::Index cols, Init init) {
    return store.add(std::string{"scheduler."} + name, rows, cols, init, seed);
  };
  w0_ = add("w0", e, ScheduleFeatures::kRows, Init::kGlorot);
  b0_ = add("b0", e, 1, Init::kZero);
  ws_ = add("ws", e, e, Init::kGlorot);
  wp_ = add("wp", e, e, Init::kGlorot);
  wt_ = add("wt", e, e, Init::kGlorot);
  b_ = add("b", e, 1, Init::kZero);
  we_ = add("we", c, e, Init::kGlorot);
  b1_ = add("b1", c, 1, Init::kZero);
  a_ = add("a", kDeviceFeatures * c, heads, Init::kZero);
  v_ = add("v", kDeviceFeatures, heads, Init::kZero);
  MatrixMap v = store.value(v_);
  for (std::size_t head = 0; head < shape.heads(); ++head) {
    const bool founds = head < shape.founders;
    const std::vector<Rule>& rules = founds ? founding_rules() : improving_rules();
    for (const Weight& weight : rules[(founds ? head : head - shape.founders) % rules.size()])
      v(weight.feature, static_cast<Eigen::Index>(head)) = weight.value;
  }
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
  embedded.code = ((store.value(we_) * h).colwise() + store.value(b1_).col(0)).array().tanh();
  return embedded;
}

SchedulerDrawn SchedulerNetwork::draw(const ParameterStore& store, const ScheduleWorld& world,
                                      const Embedded& embedded, const SchedulerDraw& how,
                                      SchedulerTrace* trace) const {
  EMPLACE_CHECK(how.head < shape_.heads() && (how.change.empty() || how.change.size() == kDeviceFeatures),
                "the head exists, and its change has a value for each feature");
  const auto head = static_cast<Eigen::Index>(how.head);
  const Eigen::Map<const Matrix> a{store.value(a_).col(head).data(), kDeviceFeatures, shape_.code};
  const bool plain = a.isZero(0);
  Eigen::VectorXf v = store.value(v_).col(head), weights(kDeviceFeatures);
  for (std::size_t i = 0; i < how.change.size(); ++i) v[static_cast<Eigen::Index>(i)] += how.change[i];
  Eigen::VectorXf logit(static_cast<Eigen::Index>(world.num_devices()));
  ScheduleWalk walk{world, how.start, how.reserved, how.devices};
  const std::uint32_t leaves = how.start == nullptr ? SchedulerDraw::kNoUnit : how.leaves;
  if (trace != nullptr) {
    trace->head = how.head;
    trace->leaves = leaves;
  }
  SchedulerDrawn drawn;
  while (!walk.done()) {
    const std::uint32_t unit = walk.unit();
    walk.evaluate();
    const auto open = walk.open();
    const auto n = static_cast<Eigen::Index>(open.size());
    std::size_t taken = 0;
    if (n > 1) {
      const auto f = walk.features();
      weights = v;
      if (!plain) weights.noalias() += a.lazyProduct(embedded.code.col(unit));
      auto p = logit.head(n);
      p.noalias() = f.transpose().lazyProduct(weights);
      if (unit == leaves) p += kLeave * f.row(ScheduleWalk::kAtStart).transpose();
      Eigen::Index best = 0;
      p = (p.array() - p.maxCoeff(&best)).exp();
      p /= p.sum();
      const std::span<const float> probability{p.data(), open.size()};
      taken = static_cast<std::size_t>(best);
      if (how.rng != nullptr) taken = drawn_choice(probability, taken, *how.rng);
      bool follows = how.drawn.empty() || how.drawn[unit] != 0;
      if (!how.forced.empty() && how.forced[unit] != ScheduleWorld::kNowhere) {
        const auto wanted = std::find(open.begin(), open.end(), how.forced[unit]);
        if (wanted == open.end())
          follows = false;
        else
          taken = static_cast<std::size_t>(wanted - open.begin());
      }
      if (follows) drawn.log_probability += std::log(std::max(1e-30f, probability[taken]));
      if (trace != nullptr && follows) note_choice(*trace, walk, probability, taken);
    }
    walk.take(open[taken]);
  }
  drawn.device_of_unit = walk.device_of_unit();
  drawn.estimated_s = walk.end_ns() * 1e-9;
  drawn.overflowed = walk.overflowed();
  drawn.tight = walk.tight();
  return drawn;
}

Matrix SchedulerNetwork::opinion(const ParameterStore& store, const ScheduleWorld& world,
                                 const Embedded& embedded,
                                 std::span<const std::uint8_t> device_of_unit) const {
  const auto founders = static_cast<Eigen::Index>(shape_.founders);
  const Matrix v = store.value(v_).leftCols(founders);
  Matrix weights(kDeviceFeatures, founders);
  Matrix found = Matrix::Zero(static_cast<Eigen::Index>(world.num_devices()),
                              static_cast<Eigen::Index>(world.num_units()));
  DeviceMask all;
  ScheduleWalk walk{world, nullptr, {}, all.set()};
  while (!walk.done()) {
    const std::uint32_t unit = walk.unit();
    walk.evaluate();
    const auto open = walk.open();
    if (open.size() < 2) {
      walk.take(open[0]);
      continue;
    }
    for (Eigen::Index head = 0; head < founders; ++head) {
      const Eigen::Map<const Matrix> a{store.value(a_).col(head).data(), kDeviceFeatures, shape_.code};
      weights.col(head) = v.col(head) + a.lazyProduct(embedded.code.col(unit));
    }
    Matrix p = walk.features().transpose() * weights;
    p = (p.rowwise() - p.colwise().maxCoeff()).array().exp();
    p.array().rowwise() /= p.colwise().sum().array();
    const Eigen::VectorXf mean = p.rowwise().mean();
    const auto wanted = std::find(open.begin(), open.end(), device_of_unit[unit]);
    if (wanted == open.end()) {
      Eigen::Index best = 0;
      mean.maxCoeff(&best);
      walk.take(open[static_cast<std::size_t>(best)]);
      continue;
    }
    for (std::size_t n = 0; n < open.size(); ++n)
      found(static_cast<Eigen::Index>(open[n]), static_cast<Eigen::Index>(unit)) =
          mean[static_cast<Eigen::Index>(n)];
    walk.take(*wanted);
  }
  return found;
}

double SchedulerNetwork::accumulate(ParameterStore& store, const Embedded& embedded,
                                    const SchedulerTrace& trace, float advantage, float entropy,
                                    Flow& flow) const {
  if (flow.h.size() == 0) flow.h = Matrix::Zero(shape_.embedding, embedded.code.cols());
  if (trace.choices() == 0) return 0;
  const auto pairs = static_cast<Eigen::Index>(trace.begin.back());
  const auto choices = static_cast<Eigen::Index>(trace.choices());
  const auto head = static_cast<Eigen::Index>(trace.head);
  const Eigen::Map<const Matrix> f{trace.features.data(), kDeviceFeatures, pairs};
  const Matrix a = Eigen::Map<const Matrix>{store.value(a_).col(head).data(), kDeviceFeatures, shape_.code};
  const Eigen::VectorXf v = store.value(v_).col(head);
  Eigen::Map<Matrix> da{store.gradient(a_).col(head).data(), kDeviceFeatures, shape_.code};

  double loss = 0;
  const float share = 1 / static_cast<float>(choices);
  Matrix dcode(shape_.code, choices), units(shape_.embedding, choices);
  Eigen::VectorXf dv = Eigen::VectorXf::Zero(kDeviceFeatures);
  for (Eigen::Index c = 0; c < choices; ++c) {
    const auto first = static_cast<Eigen::Index>(trace.begin[static_cast<std::size_t>(c)]);
    const Eigen::Index n = static_cast<Eigen::Index>(trace.begin[static_cast<std::size_t>(c) + 1]) - first;
    const auto unit = static_cast<Eigen::Index>(trace.unit[static_cast<std::size_t>(c)]);
    const auto own = f.middleCols(first, n);
    const Eigen::VectorXf weights = v + a * embedded.code.col(unit);
    Eigen::VectorXf p = own.transpose() * weights;
    if (trace.unit[static_cast<std::size_t>(c)] == trace.leaves)
      p += kLeave * own.row(ScheduleWalk::kAtStart).transpose();
    p = (p.array() - p.maxCoeff()).exp();
    p /= p.sum();
    const Eigen::VectorXf log_p = p.cwiseMax(1e-30f).array().log();
    const float negative = p.dot(log_p);  // -H
    const auto chosen = static_cast<Eigen::Index>(trace.chosen[static_cast<std::size_t>(c)]) - first;
    loss -= static_cast<double>(log_p[chosen]);
    Eigen::VectorXf ds = advantage * p;
    ds[chosen] -= advantage;
    ds.array() += entropy * p.array() * (log_p.array() - negative);
    ds *= share;
    const Eigen::VectorXf dweights = own * ds;
    dv += dweights;
    da.noalias() += dweights * embedded.code.col(unit).transpose();
    dcode.col(c) = (a.transpose() * dweights).array() * (1 - embedded.code.col(unit).array().square());
    units.col(c) = embedded.h.back().col(unit);
  }
  store.gradient(v_).col(head) += dv;
  store.gradient(b1_).col(0) += dcode.rowwise().sum();
  store.gradient(we_).noalias() += dcode * units.transpose();
  const Matrix dh = store.value(we_).transpose() * dcode;
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
