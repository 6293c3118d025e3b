#include "graph/training/replica_graph.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "graph/copied_op.h"
#include "graph/lowering.h"
#include "graph/memory_plan.h"
#include "graph/scope_names.h"
#include "graph/training/passes.h"

namespace emplace {
namespace {

class Replicator {
 public:
  Replicator(const OpGraph& graph, const Islands& islands)
      : graph_{graph},
        islands_{islands},
        near_{islands.front().size()},
        far_{islands.size()},
        passes_{graph},
        now_(near_ * far_),
        reduced_(now_.size()) {
    for (auto& row : now_) row.assign(graph.num_ops(), kNoOp);
    for (auto& row : reduced_) row.assign(graph.num_tensors(), kNoOp);
  }

  ReplicaGraph run() && {
    find_buckets();
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op{i};
      if (graph_.phase(op) == Phase::kUpdate) close_for(op);
      for (std::uint32_t r = 0; r < now_.size(); ++r) copy(op, r);
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
        const TensorId tensor = graph_.output(op, k);
        if (!passes_.is_gradient[index(tensor)]) continue;
        bucket_.push_back(tensor);
        if (ends_bucket_[index(tensor)]) close();
      }
    }
    for (const auto& [op, with, r] : colocated_) builder_[op].colocate = now_[r][index(with)];
    builder_.set_name(graph_.name()).set_source(graph_.source()).set_meta_json(graph_.meta_json());
    auto graph = std::move(builder_).build();
    EMPLACE_CHECK(graph.ok(), "replicas of a graph that was checked");
    return {*std::move(graph), std::move(source_), std::move(replica_)};
  }

 private:
  /// Decides after which gradient, in the order in which they are made, a bucket ends.
  void find_buckets() {
    ends_bucket_.assign(graph_.num_tensors(), false);
    std::int64_t total = 0;
    for (std::uint32_t t = 0; t < graph_.num_tensors(); ++t)
      if (passes_.is_gradient[t]) total += graph_.bytes(TensorId{t});
    const std::int64_t most = std::min(kBucketBytes, total / kBuckets);
    std::string_view block;
    std::int64_t bytes = 0;
    std::size_t last = graph_.num_tensors();
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
      for (std::size_t k = 0; k < graph_.num_outputs(OpId{i}); ++k) {
        const TensorId tensor = graph_.output(OpId{i}, k);
        if (!passes_.is_gradient[index(tensor)]) continue;
        const std::string_view own = numbered_block(graph_.group_name(OpId{i}));
        if (last < graph_.num_tensors() && (own != block || bytes >= most)) {
          ends_bucket_[last] = true;
          bytes = 0;
        }
        block = own;
        bytes += graph_.bytes(tensor);
        last = index(tensor);
      }
    if (last < graph_.num_tensors()) ends_bucket_[last] = true;
  }

  static std::string end(std::uint32_t replica) { return "@r" + std::to_string(replica); }
  EdgeSpec edge(OpId op, std::size_t output = 0) const {
    return {static_cast<std::uint32_t>(index(op)), static_cast<std::uint32_t>(output)};
  }
  EdgeSpec edge(TensorId tensor, std::uint32_t replica) const {
    const OpId op = graph_.producer(tensor);
    return edge(now_[replica][index(op)], index(tensor) - index(graph_.first_output(op)));
  }

  OpId add(OpSpec spec, OpId source, std::uint32_t replica) {
    source_.push_back(source);
    replica_.push_back(replica);
    return builder_.add(std::move(spec));
  }

  void copy(OpId op, std::uint32_t r) {
    OpSpec spec = copied_op(graph_, op);
    spec.name += end(r);
    const auto inputs = graph_.inputs(op);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const bool reduced = graph_.phase(op) == Phase::kUpdate && passes_.is_gradient[index(inputs[k])];
      spec.inputs[k] = reduced ? edge(reduced_[r][index(inputs[k])]) : edge(inputs[k], r);
    }
    const OpId with = std::exchange(spec.colocate, kNoOp);
    now_[r][index(op)] = add(std::move(spec), op, r);
    if (with != kNoOp) colocated_.push_back({now_[r][index(op)], with, r});
  }

  /// Ends the bucket if an update reads one of its gradients.
  void close_for(OpId update) {
    for (const TensorId input : graph_.inputs(update))
      if (std::ranges::find(bucket_, input) != bucket_.end()) return close();
  }

  /// Ops that each replica gets for a bucket.
  struct Stage {
    std::string_view name_end;
    std::size_t parts;    ///< Number of parts of the bucket.
    std::size_t outputs;  ///< Parts that each op has as outputs.
    bool adds;            ///< Whether it adds up what it reads.
  };
  /// `reads`: the inputs of the op of replica l of island h. Returns [replicas] the ops.
  template <class Reads>
  std::vector<OpId> add_to_each(const Stage& stage, Reads reads) {
    const OpId first = graph_.producer(bucket_.front());
    const std::size_t k = index(bucket_.front()) - index(graph_.first_output(first));
    const std::string name = std::string{graph_.name(first)} + (k > 0 ? "#" + std::to_string(k) : "");
    const DType dtype = graph_.dtype(bucket_.front());
    std::int64_t bytes = 0;
    for (const TensorId tensor : bucket_) bytes += graph_.bytes(tensor);
    const auto parts = static_cast<std::int64_t>(stage.parts);
    const std::int64_t elements = (bytes / element_bytes(dtype) + parts - 1) / parts;
    std::vector<OpId> added(now_.size(), kNoOp);
    for (std::size_t h = 0; h < far_; ++h)
      for (std::size_t l = 0; l < near_; ++l) {
        const std::uint32_t r = islands_[h][l];
        OpSpec spec{.name = name + std::string{stage.name_end} + end(r),
                    .type = std::string{kReduceType},
                    .inputs = reads(h, l),
                    .outputs = std::vector<TensorSpec>(stage.outputs, {dtype, {elements}}),
                    .group = std::string{graph_.group_name(first)},
                    .phase = Phase::kUpdate};
        if (stage.adds) {
          spec.flops = elements * static_cast<std::int64_t>(stage.outputs * (spec.inputs.size() - 1));
        } else {
          spec.measured_us = {{"gpu", kLaunchUs}, {"cpu", kLaunchUs}};
        }
        added[r] = add(std::move(spec), maker_of(graph_, bucket_.front()), r);
      }
    return added;
  }

  /// An output of each replica of a group, that of the reader first.
  std::vector<EdgeSpec> from_group(const std::vector<OpId>& ops, const std::vector<std::uint32_t>& group,
                                   std::uint32_t reader, std::size_t output) const {
    std::vector<EdgeSpec> reads{edge(ops[reader], output)};
    for (const std::uint32_t other : group)
      if (other != reader) reads.push_back(edge(ops[other], output));
    return reads;
  }
  /// The replica with this position, in each island.
  std::vector<std::uint32_t> counterparts(std::size_t position) const {
    std::vector<std::uint32_t> group;
    for (const auto& island : islands_) group.push_back(island[position]);
    return group;
  }

  /// Adds the ops that reduce the bucket, and empties it.
  void close() {
    const std::size_t pieces = near_ > 1 ? near_ : far_;
    std::vector<OpId> ops =
        add_to_each({"@bucket", pieces, pieces, false}, [&](std::size_t h, std::size_t l) {
          std::vector<EdgeSpec> reads;
          for (const TensorId tensor : bucket_) reads.push_back(edge(tensor, islands_[h][l]));
          return reads;
        });
    if (near_ > 1)
      ops = add_to_each({"@sum", near_ * far_, far_, true}, [&](std::size_t h, std::size_t l) {
        return from_group(ops, islands_[h], islands_[h][l], l);
      });
    if (far_ > 1)
      ops = add_to_each({"@across", near_ * far_, 1, true}, [&](std::size_t h, std::size_t l) {
        return from_group(ops, counterparts(l), islands_[h][l], h);
      });
    if (near_ > 1 && far_ > 1)
      ops = add_to_each({"@gather", near_, 1, false}, [&](std::size_t h, std::size_t l) {
        return from_group(ops, counterparts(l), islands_[h][l], 0);
      });
    for (std::size_t h = 0; h < far_; ++h)
      for (std::size_t l = 0; l < near_; ++l) {
        const std::vector<EdgeSpec> waits =
            from_group(ops, near_ > 1 ? islands_[h] : counterparts(l), islands_[h][l], 0);
        for (const TensorId tensor : bucket_) add_reduced(tensor, islands_[h][l], waits);
      }
    bucket_.clear();
  }

  void add_reduced(TensorId tensor, std::uint32_t r, const std::vector<EdgeSpec>& waits) {
    const OpId op = graph_.producer(tensor);
    const std::size_t k = index(tensor) - index(graph_.first_output(op));
    const auto shape = graph_.shape(tensor);
    OpSpec spec{
        .name = std::string{graph_.name(op)} + (k > 0 ? "#" + std::to_string(k) : "") + "@reduced" + end(r),
        .type = std::string{kWaitType},
        .inputs = {edge(tensor, r)},
        .outputs = {{graph_.dtype(tensor), {shape.begin(), shape.end()}}},
        .view = true,
        .group = std::string{graph_.group_name(op)},
        .phase = Phase::kUpdate};
    spec.inputs.insert(spec.inputs.end(), waits.begin(), waits.end());
    reduced_[r][index(tensor)] = add(std::move(spec), maker_of(graph_, tensor), r);
  }

  /// Time of an op that only starts a transfer.
  static constexpr double kLaunchUs = 1;

  struct Colocated {
    OpId op, with;  // In the new graph, and in the original one.
    std::uint32_t replica;
  };

  const OpGraph& graph_;
  const Islands& islands_;
  const std::size_t near_, far_;  // Replicas of an island; islands.
  const TrainingPasses passes_;
  OpGraphBuilder builder_;
  std::vector<OpId> source_;
  std::vector<std::uint32_t> replica_;
  std::vector<std::vector<OpId>> now_;      // [replicas, ops] Their numbers in the new graph.
  std::vector<std::vector<OpId>> reduced_;  // [replicas, tensors] The view of a gradient after the exchange.
  std::vector<bool> ends_bucket_;           // [tensors]
  std::vector<TensorId> bucket_;            // Gradients of the open bucket.
  std::vector<Colocated> colocated_;
};

}  // namespace

ReplicaGraph replica_graph(const OpGraph& graph, const Islands& islands) {
  return Replicator{graph, islands}.run();
}

}  // namespace emplace
