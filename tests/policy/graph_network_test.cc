// Goal: the network along an episode matches the equations in every state, and so does its gradient.
// Method: a whole forward pass of every state, bit by bit; PyTorch in float64
// (tests/parity/make_placeto_fixture.py); at the paper's sizes a plain batched replay on the tape; finite
// differences of the whole and of each part.
#include "policy/nn/graph_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "policy/nn/tape.h"
#include "tests/policy/matrices.h"

namespace emplace::policy {
namespace {

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Edges layered_edges(std::uint32_t nodes, Rng& rng) {
  Edges edges;
  for (std::uint32_t i = 1; i < nodes; ++i) {
    edges.emplace_back(i - 1 - rng.below(std::min(i, 4u)), i);
    if (rng.below(3) == 0) edges.emplace_back(rng.below(i), i);
  }
  return edges;
}

/// A sequence of states in which one or two nodes change at a time.
struct Sequence {
  Sequence(std::uint32_t nodes, Eigen::Index features, std::size_t steps, std::uint64_t seed) {
    Rng rng{seed, Purpose::kTest};
    states.push_back(random_columns(rng, features, nodes));
    for (std::size_t t = 0; t < steps; ++t) {
      if (t > 0) {
        states.push_back(states.back());
        changed.emplace_back();
        for (const std::uint32_t node : {at.back(), rng.below(nodes)}) {
          states.back().col(node) = random_columns(rng, features, 1);
          changed.back().push_back(node);
        }
        at.push_back(changed.back().back());
      } else {
        changed.emplace_back();
        at.push_back(rng.below(nodes));
      }
    }
  }
  static Matrix random_columns(Rng& rng, Eigen::Index rows, Eigen::Index cols) {
    Matrix m(rows, cols);
    for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = rng.uniform();
    return m;
  }
  std::vector<Matrix> states;
  std::vector<std::vector<std::uint32_t>> changed;
  std::vector<std::uint32_t> at;
};

void run(GraphTrace& trace, const PackedGraphNetwork& weights, const GroupGraph& graph,
         const AllowedDevices* allowed, const Sequence& sequence) {
  trace.begin(weights, graph, allowed, sequence.states.front());
  for (std::size_t t = 0; t < sequence.at.size(); ++t) {
    for (const std::uint32_t node : sequence.changed[t]) {
      trace.change(
          node, {sequence.states[t].col(node).data(), static_cast<std::size_t>(sequence.states[t].rows())});
    }
    trace.step(sequence.at[t]);
  }
}

/// A network whose parameters are all random, including those of the head.
struct GraphNet {
  GraphNet(const GraphNetworkOptions& options, Eigen::Index features, Eigen::Index devices,
           float reach = 0.05f)
      : network{store, "net", features, devices, options, 3} {
    Rng rng{5, Purpose::kTest};
    for (float& value : store.values()) value += reach * rng.normal();
  }
  ParameterStore store;
  const GraphNetwork network;
};

constexpr Aggregator kAll[] = {Aggregator::kMessages, Aggregator::kSimplePartitioner,
                               Aggregator::kSimpleAggregator};

TEST(GraphNetwork, StepEqualsAWholeForwardPassBitForBit) {
  Rng rng{1, Purpose::kTest};
  const GroupGraph graph{40, layered_edges(40, rng)};
  for (const Aggregator aggregator : kAll) {
    const GraphNet net{{.aggregator = aggregator}, 9, 5};
    const Sequence sequence{40, 9, 60, 2};
    const PackedGraphNetwork weights{net.network, net.store};
    GraphTrace trace, whole;
    run(trace, weights, graph, nullptr, sequence);
    double whole_flops = 0;
    for (std::size_t t = 0; t < sequence.at.size(); ++t) {
      whole.begin(weights, graph, nullptr, sequence.states[t]);
      const std::span<const float> log_p = whole.step(sequence.at[t]);
      for (Eigen::Index d = 0; d < 5; ++d) {
        ASSERT_EQ(trace.log_p()(d, static_cast<Eigen::Index>(t)), log_p[static_cast<std::size_t>(d)])
            << word_of(aggregator) << ", step " << t << ", device " << d;
      }
      whole_flops += whole.forward_flops();
    }
    EXPECT_LT(trace.forward_flops(), 0.6 * whole_flops) << "and computes only what changed";
  }
}

std::vector<float> gradients(GraphNet& net, const PackedGraphNetwork& weights, GraphTrace& trace,
                             const Matrix& seed) {
  GraphNetworkGradient gradient{weights};
  trace.backward(seed, gradient);
  net.store.clear_gradients();
  gradient.add_to(net.store);
  return {net.store.gradients().begin(), net.store.gradients().end()};
}

TEST(GraphNetwork, StepsEvaluatedTogetherOrWithoutAPastHaveTheSameBits) {
  Rng rng{11, Purpose::kTest};
  const GroupGraph graph{40, layered_edges(40, rng)};
  for (const Aggregator aggregator : kAll) {
    for (const bool means : {false, true}) {
      GraphNet net{{.aggregator = aggregator, .rounds = 3, .means = means, .stay = 0.5f}, 9, 5};
      const Sequence sequence{40, 9, 60, 12};
      const Matrix seed = Sequence::random_columns(rng, 5, 60) - Matrix::Constant(5, 60, 0.5f);
      const PackedGraphNetwork weights{net.network, net.store};
      GraphTrace single, together, newest;
      run(single, weights, graph, nullptr, sequence);
      together.begin(weights, graph, nullptr, sequence.states.front());
      newest.begin(weights, graph, nullptr, sequence.states.front(), GraphTrace::Keep::kNewest);
      for (std::size_t t = 0; t < sequence.at.size(); ++t) {
        for (const std::uint32_t node : sequence.changed[t]) {
          const std::span features{sequence.states[t].col(node).data(), std::size_t{9}};
          together.change(node, features), newest.change(node, features);
        }
        together.visit(sequence.at[t]);
        if (t == 7 || t == 41) together.evaluate();  // Batches of several sizes.
        newest.step(sequence.at[t]);
      }
      together.evaluate();
      ASSERT_EQ(Matrix{together.log_p()}, Matrix{single.log_p()}) << word_of(aggregator);
      ASSERT_EQ(Matrix{newest.log_p()}, Matrix{single.log_p()}) << word_of(aggregator);
      EXPECT_EQ(together.forward_flops(), single.forward_flops());
      const std::vector<float> expected = gradients(net, weights, single, seed);
      EXPECT_EQ(gradients(net, weights, together, seed), expected) << word_of(aggregator);
      EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 0);
    }
  }
}

TEST(GraphNetwork, RoundsThatNoPathIsLongEnoughForCostNothing) {
  const Edges chain = {{0, 1}, {1, 2}};
  const Sequence sequence{6, 9, 20, 13};
  double flops[2] = {};
  Matrix log_p[2];
  for (const std::size_t rounds : {3u, 8u}) {
    const GraphNet net{{.rounds = rounds}, 9, 5};
    const PackedGraphNetwork weights{net.network, net.store};
    const GroupGraph graph{6, chain};
    GraphTrace trace;
    run(trace, weights, graph, nullptr, sequence);
    flops[rounds == 8] = trace.forward_flops();
    log_p[rounds == 8] = trace.log_p();
  }
  EXPECT_EQ(log_p[0], log_p[1]) << "an embedding is final after as many rounds as the longest path has edges";
  EXPECT_EQ(flops[0], flops[1]);
}

using Rows = std::map<std::string, std::vector<std::vector<double>>>;

std::vector<Rows> read_models() {
  std::ifstream file{std::string{EMPLACE_FIXTURES} + "/placeto_parity.txt"};
  std::vector<Rows> models;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in{line};
    std::string name;
    in >> name;
    if (name == "model") {
      models.emplace_back();
      continue;
    }
    auto& row = models.back()[name].emplace_back();
    for (double value = 0; in >> value;) row.push_back(value);
  }
  return models;
}

TEST(GraphNetwork, ValuesAndGradientsEqualPyTorch) {
  const std::vector<Rows> models = read_models();
  ASSERT_EQ(models.size(), 3u);
  for (std::size_t m = 0; m < models.size(); ++m) {
    const Rows& rows = models[m];
    const auto size = [&](std::size_t i) { return static_cast<Eigen::Index>(rows.at("sizes")[0][i]); };
    const Eigen::Index nodes = size(0), devices = size(1), features = 4 + devices, steps = size(5);
    ParameterStore store;
    const GraphNetwork network{store,
                               "net",
                               features,
                               devices,
                               {.aggregator = kAll[m],
                                .embedding = size(2),
                                .hidden = size(3),
                                .rounds = static_cast<std::size_t>(size(4))},
                               1};
    std::size_t at = 0;
    for (const auto& parameter : rows.at("parameter")) {
      for (const double value : parameter) store.values()[at++] = static_cast<float>(value);
    }
    ASSERT_EQ(at, store.size());
    Edges edges;
    for (std::size_t i = 0; i < rows.at("edges")[0].size(); i += 2) {
      edges.emplace_back(static_cast<std::uint32_t>(rows.at("edges")[0][i]),
                         static_cast<std::uint32_t>(rows.at("edges")[0][i + 1]));
    }
    const GroupGraph graph{static_cast<std::size_t>(nodes), edges};
    AllowedDevices allowed(static_cast<std::size_t>(nodes));
    for (std::size_t i = 0; i < rows.at("allowed")[0].size(); ++i)
      allowed[i / static_cast<std::size_t>(devices)].push_back(rows.at("allowed")[0][i] != 0);

    const PackedGraphNetwork weights{network, store};
    GraphTrace trace;
    for (Eigen::Index t = 0; t < steps; ++t) {
      const Matrix state = matrix(rows.at("state")[static_cast<std::size_t>(t)], features, nodes);
      if (t == 0) trace.begin(weights, graph, &allowed, state);
      for (Eigen::Index node = 0; node < nodes; ++node) {
        if (state.col(node) == trace.features().col(node)) continue;
        trace.change(static_cast<std::uint32_t>(node),
                     {state.col(node).data(), static_cast<std::size_t>(features)});
      }
      trace.step(static_cast<std::uint32_t>(rows.at("nodes")[0][static_cast<std::size_t>(t)]));
    }
    const Matrix expected = matrix(rows.at("log_p")[0], devices, steps);
    for (Eigen::Index i = 0; i < expected.size(); ++i) {
      if (expected.data()[i] < -1e20f) {
        EXPECT_EQ(trace.log_p().data()[i], -1e30f);
      } else {
        EXPECT_NEAR(trace.log_p().data()[i], expected.data()[i], 1e-5 * std::abs(expected.data()[i]));
      }
    }
    GraphNetworkGradient gradient{weights};
    trace.backward(matrix(rows.at("weights")[0], devices, steps), gradient);
    gradient.add_to(store);
    at = 0;
    for (const auto& part : rows.at("gradient")) {
      double largest = 0;
      for (const double value : part) largest = std::max(largest, std::abs(value));
      for (const double value : part) {
        EXPECT_NEAR(store.gradients()[at], value, 1e-5 * largest) << "model " << m << ", parameter " << at;
        ++at;
      }
    }
    ASSERT_EQ(at, store.size());
  }
}

/// Σ weights · log p of the sequence, on a tape: every state is its own batch of columns.
class PlainReplay {
 public:
  PlainReplay(GraphNet& net, const GroupGraph& graph) : net_{net}, graph_{graph}, tape_{net.store} {}

  /// Accumulates the gradient of Σ seed · log p and returns log p [devices, steps].
  Matrix run(const Sequence& sequence, const Matrix& seed) {
    const auto& network = net_.network.parts();
    std::vector<Var> logits;
    for (std::size_t t = 0; t < sequence.at.size(); ++t) {
      const Var input = apply(network.input.front(), tape_.constant(sequence.states[t]));
      Var parts[2];
      for (std::size_t d = 0; d < 2; ++d) {
        Var x = input;
        for (std::size_t r = 0; r < net_.network.options().rounds; ++r) {
          const Var received =
              mix(apply(network.directions[d].message, x), [&](std::uint32_t to, std::uint32_t from) {
                const auto near = d == 0 ? graph_.parents(to) : graph_.children(to);
                return std::find(near.begin(), near.end(), from) != near.end();
              });
          x = add(apply(network.directions[d].update, received), input);
        }
        parts[d] = x;
      }
      const Var embedding = tape_.stack(parts[0], parts[1]);
      const std::uint32_t node = sequence.at[t];
      const auto summary = [&](std::size_t p) {
        const Var sums =
            mix(apply(network.pools[p].each, embedding), [&](std::uint32_t to, std::uint32_t from) {
              return graph_.relations(to)[from] == static_cast<Relation>(p);
            });
        const std::uint32_t columns[] = {node};
        return apply(network.pools[p].all, tape_.lookup(sums, columns));
      };
      const std::uint32_t columns[] = {node};
      const Var all = tape_.stack(tape_.stack(summary(0), summary(1)),
                                  tape_.stack(summary(2), tape_.lookup(embedding, columns)));
      logits.push_back(apply(network.head.front(), all));
    }
    Matrix log_p(seed.rows(), seed.cols());
    for (Eigen::Index t = 0; t < seed.cols(); ++t) {
      const Matrix& l = tape_.value(logits[static_cast<std::size_t>(t)]);
      log_p.col(t) = l.array() - std::log(l.array().exp().sum());
      tape_.gradient(logits[static_cast<std::size_t>(t)]) =
          seed.col(t) - Matrix(log_p.col(t).array().exp()) * seed.col(t).sum();
    }
    tape_.backward();
    return log_p;
  }

 private:
  Var apply(const Perceptron& perceptron, Var x) {
    for (std::size_t i = 0; i < perceptron.layers().size(); ++i) {
      x = tape_.affine(tape_.parameter(perceptron.layers()[i].w), x,
                       tape_.parameter(perceptron.layers()[i].b));
      if (i + 1 < perceptron.layers().size() || perceptron.final_relu()) x = relu(tape_, x);
    }
    return x;
  }
  /// Column `to` becomes the sum of the columns that send to it.
  template <class Hears>
  Var mix(Var x, Hears hears) {
    const Eigen::Index n = tape_.value(x).cols();
    Matrix weight = Matrix::Zero(n, n);  // [from, to]
    for (Eigen::Index to = 0; to < n; ++to) {
      for (Eigen::Index from = 0; from < n; ++from)
        weight(from, to) = hears(static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(from)) ? 1 : 0;
    }
    return tape_.record(tape_.value(x) * weight, [this, x, weight](const Matrix& dy) {
      tape_.gradient(x).noalias() += dy * weight.transpose();
    });
  }
  Var add(Var a, Var b) {
    return tape_.record(tape_.value(a) + tape_.value(b), [this, a, b](const Matrix& dy) {
      tape_.gradient(a) += dy;
      tape_.gradient(b) += dy;
    });
  }

  GraphNet& net_;
  const GroupGraph& graph_;
  Tape tape_;
};

TEST(GraphNetwork, EqualsAPlainBatchedReplayAtThePapersSizes) {
  Rng rng{4, Purpose::kTest};
  const GroupGraph graph{23, layered_edges(23, rng)};
  GraphNet net{{}, 9, 5};
  const Sequence sequence{23, 9, 31, 6};
  const Matrix seed = Sequence::random_columns(rng, 5, 31) - Matrix::Constant(5, 31, 0.5f);
  const PackedGraphNetwork weights{net.network, net.store};
  GraphTrace trace;
  run(trace, weights, graph, nullptr, sequence);
  GraphNetworkGradient gradient{weights};
  trace.backward(seed, gradient);
  gradient.add_to(net.store);
  const std::vector<float> seen(net.store.gradients().begin(), net.store.gradients().end());
  net.store.clear_gradients();
  PlainReplay plain{net, graph};
  const Matrix expected = plain.run(sequence, seed);
  EXPECT_LT((trace.log_p() - expected).cwiseAbs().maxCoeff(), 1e-5f);
  float largest = 0, apart = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    largest = std::max(largest, std::abs(net.store.gradients()[i]));
    apart = std::max(apart, std::abs(seen[i] - net.store.gradients()[i]));
  }
  EXPECT_GT(largest, 0.1f);
  EXPECT_LT(apart, 1e-5f * largest);
}

/// Central differences of `value`, with the tolerance for a ReLU's kink within the step: half the second
/// difference over the step.
template <class Value>
bool agrees(float analytic, float& at, float step, Value value) {
  const float kept = at;
  const double here = value();
  at = kept + step;
  const double above = value();
  at = kept - step;
  const double below = value();
  at = kept;
  const double numeric = (above - below) / (2.0 * static_cast<double>(step));
  const double kink = std::abs(above - 2 * here + below) / (2.0 * static_cast<double>(step));
  return std::abs(static_cast<double>(analytic) - numeric) <= kink + 1e-2 * std::max(1.0, std::abs(numeric));
}

double weighted(const GraphNet& net, const GroupGraph& graph, const AllowedDevices* allowed,
                const Sequence& sequence, const Matrix& seed) {
  const PackedGraphNetwork weights{net.network, net.store};
  GraphTrace trace;
  run(trace, weights, graph, allowed, sequence);
  double sum = 0;
  for (Eigen::Index i = 0; i < seed.size(); ++i)
    sum += static_cast<double>(seed.data()[i]) * trace.log_p().data()[i];
  return sum;
}

TEST(GraphNetwork, GradientsEqualFiniteDifferences) {
  Rng rng{8, Purpose::kTest};
  const GroupGraph graph{10, layered_edges(10, rng)};
  AllowedDevices allowed(10, {true, true, true});
  allowed[4] = {true, false, true};
  for (const Aggregator aggregator : kAll) {
    GraphNet net{{.aggregator = aggregator, .embedding = 6, .hidden = 7, .rounds = 3}, 5, 3, 0.2f};
    const Sequence sequence{10, 5, 12, 9};
    Matrix seed = Sequence::random_columns(rng, 3, 12);
    for (Eigen::Index t = 0; t < 12; ++t) {
      if (sequence.at[static_cast<std::size_t>(t)] == 4) seed(1, t) = 0;
    }
    const PackedGraphNetwork weights{net.network, net.store};
    GraphTrace trace;
    run(trace, weights, graph, &allowed, sequence);
    GraphNetworkGradient gradient{weights};
    trace.backward(seed, gradient);
    gradient.add_to(net.store);
    int wrong = 0;
    for (std::size_t i = 0; i < net.store.size(); ++i) {
      wrong += agrees(net.store.gradients()[i], net.store.values()[i], 1e-3f,
                      [&] { return weighted(net, graph, &allowed, sequence, seed); })
                   ? 0
                   : 1;
    }
    EXPECT_LE(wrong, static_cast<int>(net.store.size() / 100)) << word_of(aggregator);
  }
}

TEST(Perceptron, BackwardEqualsFiniteDifferencesOfEveryLayerAndInput) {
  // Heights of one panel, of two, and of none: each takes another path through the products.
  for (const std::vector<Eigen::Index>& widths :
       {std::vector<Eigen::Index>{32, 64, 32}, {64, 64, 32}, {9, 40, 33}, {33, 7, 8, 5}}) {
    for (const bool final_relu : {false, true}) {
      ParameterStore store;
      const Perceptron shape{store, "p", widths, final_relu, 1};
      Rng rng{2, Purpose::kTest};
      for (float& value : store.values()) value += 0.1f * rng.normal();
      constexpr Eigen::Index kColumns = 101;  // A block and a remainder.
      Matrix x = Sequence::random_columns(rng, shape.in(), kColumns);
      const Matrix dy = Sequence::random_columns(rng, shape.out(), kColumns);
      Scratch scratch;
      Matrix y(shape.out(), kColumns);
      const auto value = [&] {
        PackedPerceptron{shape, store}.forward(kColumns, x.data(), y.data(), scratch);
        return y.cwiseProduct(dy).cast<double>().sum();
      };
      value();
      const PackedPerceptron packed{shape, store};
      PackedPerceptron::Gradient gradient{packed};
      Matrix dx(shape.in(), kColumns);
      packed.backward(kColumns, x.data(), Matrix(y).data(), dy.data(), dx.data(), gradient, scratch);
      gradient.add_to(store);
      int wrong = 0;
      for (int i = 0; i < 100; ++i) {
        const std::size_t p = rng.below(static_cast<std::uint32_t>(store.size()));
        wrong += agrees(store.gradients()[p], store.values()[p], 1e-3f, value) ? 0 : 1;
        const auto in = static_cast<Eigen::Index>(rng.below(static_cast<std::uint32_t>(x.size())));
        wrong += agrees(dx.data()[in], x.data()[in], 1e-3f, value) ? 0 : 1;
      }
      EXPECT_LE(wrong, 4) << widths[0] << " to " << widths.back();
    }
  }
}

TEST(GroupGraph, OrdersNodesAndKnowsReachability) {
  const GroupGraph graph{6, {{0, 2}, {2, 3}, {1, 3}, {0, 3}, {3, 4}, {2, 3}, {5, 5}}};
  EXPECT_EQ(std::vector<std::uint32_t>(graph.order().begin(), graph.order().end()),
            (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(graph.num_edges(), 5u) << "repeats and loops are not edges";
  using enum Relation;
  const auto seen = graph.relations(2);
  EXPECT_EQ(std::vector<Relation>(seen.begin(), seen.end()),
            (std::vector<Relation>{kAncestor, kParallel, kSelf, kDescendant, kDescendant, kParallel}));
}

TEST(GroupGraph, CutsCyclesBeforeTheirLowestNode) {
  // 1 → 2 → 3 → 1 is a cycle behind 4; 0 is isolated.
  const GroupGraph graph{5, {{1, 2}, {2, 3}, {3, 1}, {4, 1}, {1, 4}}};
  EXPECT_EQ(std::vector<std::uint32_t>(graph.order().begin(), graph.order().end()),
            (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(graph.parents(1).size(), 0u) << "what would lead back is dropped";
  EXPECT_EQ(graph.relations(3)[1], Relation::kAncestor);
  EXPECT_EQ(graph.relations(1)[3], Relation::kDescendant);
  EXPECT_EQ(graph.relations(4)[2], Relation::kParallel);
}

}  // namespace
}  // namespace emplace::policy
