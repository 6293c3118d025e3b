#include "placement/export/submodels/model_division.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/text/words.h"
#include "graph/formats/onnx/onnx_model.h"
#include "placement/export/parts.h"

namespace emplace::interop {
namespace {

void add_once(std::vector<std::string>& names, std::set<std::string>& seen, const std::string& name) {
  if (seen.insert(name).second) names.push_back(name);
}

/// Assigns nodes, weights and values of a model to parts. `what` and `file` must outlive it. Thread: one.
class ModelDivision {
 public:
  ModelDivision(const PlacementExport& what, const onnx_io::ModelInFile& file)
      : what_{what}, file_{file}, graph_{file.model.graph()}, first_{first_node_op(what, graph_)} {}

  Result<std::vector<Piece>> make() {
    for (int i = 0; i < graph_.node_size(); ++i)
      for (const auto& name : graph_.node(i).output())
        if (!name.empty()) producer_[name] = i;
    for (const auto& input : graph_.input())
      if (!file_.initializers.contains(input.name())) model_inputs_.insert(input.name());
    for (const auto& output : graph_.output()) model_outputs_.insert(output.name());
    std::uint32_t rank = 0;
    rank_.resize(what_.graph.num_ops());
    for (const OpId op : what_.graph.topological_order()) rank_[index(op)] = rank++;
    const std::vector<Part> parts = cut_into_parts(what_.graph, what_.placement);
    if (parts.empty()) return invalid(kSubmodels, "the model has no node that computes anything");
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (const OpId op : parts[p].ops) part_of_[node_of(op)] = p;
    for (std::size_t p = 0; p < parts.size(); ++p) EMPLACE_TRY(collect(parts[p], p));
    name_outputs();
    return std::move(pieces_);
  }

 private:
  int node_of(OpId op) const { return static_cast<int>(index(op) - first_); }
  OpId op_of(int node) const {
    return OpId{static_cast<std::uint32_t>(first_) + static_cast<std::uint32_t>(node)};
  }

  /// Values that a node reads, those of its bodies included.
  std::vector<std::string> reads_of(int node) const {
    const auto& proto = graph_.node(node);
    std::vector<std::string> reads{proto.input().begin(), proto.input().end()};
    const auto outer = onnx_io::outer_reads(proto);
    reads.insert(reads.end(), outer.begin(), outer.end());
    return reads;
  }

  Result<Unit> collect(const Part& part, std::size_t number) {
    Piece piece{part.device, {}, {}, {}, {}};
    std::set<std::string> seen;
    std::set<int> constants;
    std::vector<int> pending;
    for (const OpId op : part.ops) pending.push_back(node_of(op));
    piece.nodes = pending;
    while (!pending.empty()) {
      const int node = pending.back();
      pending.pop_back();
      for (const std::string& name : reads_of(node)) {
        if (name.empty()) continue;
        if (const auto made = producer_.find(name); made != producer_.end()) {
          const auto home = part_of_.find(made->second);
          if (home == part_of_.end()) {  // A constant: every part that reads it computes it.
            if (constants.insert(made->second).second) {
              piece.nodes.push_back(made->second);
              pending.push_back(made->second);
            }
          } else if (home->second != number) {
            add_once(piece.inputs, seen, name);
            crossing_.insert(name);
          }
        } else if (file_.initializers.contains(name)) {
          add_once(piece.weights, seen, name);
        } else if (model_inputs_.contains(name)) {
          add_once(piece.inputs, seen, name);
        } else {
          return invalid(kSubmodels, "node " + in_quotes(graph_.node(node).name()) + " reads " +
                                         in_quotes(name) + ", which no node produces");
        }
      }
    }
    std::sort(piece.nodes.begin(), piece.nodes.end(),
              [&](int a, int b) { return rank_[index(op_of(a))] < rank_[index(op_of(b))]; });
    std::sort(piece.inputs.begin(), piece.inputs.end());
    std::sort(piece.weights.begin(), piece.weights.end());
    pieces_.push_back(std::move(piece));
    return Unit{};
  }

  /// Outputs of a part are what later parts read and what the model returns. A constant or a weight that the
  /// model returns comes from the first part.
  void name_outputs() {
    for (std::size_t p = 0; p < pieces_.size(); ++p)
      for (const int node : pieces_[p].nodes)
        for (const auto& name : graph_.node(node).output())
          if (const auto home = part_of_.find(node);
              home != part_of_.end() && home->second == p &&
              (crossing_.contains(name) || model_outputs_.contains(name)))
            pieces_[p].outputs.push_back(name);
    Piece& first = pieces_.front();
    const auto add_weight = [&](const std::string& name) {
      const auto at = std::lower_bound(first.weights.begin(), first.weights.end(), name);
      if (at == first.weights.end() || *at != name) first.weights.insert(at, name);
    };
    for (const std::string& name : model_outputs_) {
      const auto made = producer_.find(name);
      if (made == producer_.end() && file_.initializers.contains(name)) {
        add_weight(name);
        first.outputs.push_back(name);
      } else if (made != producer_.end() && !part_of_.contains(made->second)) {
        first.outputs.push_back(name);
        if (std::find(first.nodes.begin(), first.nodes.end(), made->second) != first.nodes.end()) continue;
        first.nodes.insert(first.nodes.begin(), made->second);
        for (const std::string& read : reads_of(made->second))
          if (file_.initializers.contains(read)) add_weight(read);
      }
    }
  }

  const PlacementExport& what_;
  const onnx_io::ModelInFile& file_;
  const onnx::GraphProto& graph_;
  const std::size_t first_;  // Op of node 0.
  std::unordered_map<std::string, int> producer_;
  std::set<std::string> model_inputs_, model_outputs_, crossing_;
  std::unordered_map<int, std::size_t> part_of_;  // [nodes] Nodes without state.
  std::vector<std::uint32_t> rank_;               // [ops]
  std::vector<Piece> pieces_;
};

}  // namespace

std::size_t first_node_op(const PlacementExport& what, const onnx::GraphProto& graph) {
  return what.graph.num_ops() - static_cast<std::size_t>(graph.node_size());
}

Result<std::vector<Piece>> divide(const PlacementExport& what, const onnx_io::ModelInFile& file) {
  return ModelDivision{what, file}.make();
}

Placement placement_of_parts(const PlacementExport& what) {
  Placement applied = what.placement;
  for (std::uint32_t i = 0; i < what.graph.num_ops(); ++i) {
    const OpId op{i};
    if (!what.graph.is_state(op) || what.graph.type_name(op) == "Input") continue;
    std::optional<DeviceId> reader;
    bool stays = false;
    for (const OpId consumer : what.graph.readers(op)) {
      if (what.graph.is_state(consumer)) continue;
      if (!reader) reader = what.placement[index(consumer)];
      stays = stays || what.placement[index(consumer)] == what.placement[i];
    }
    if (reader && !stays) applied[i] = *reader;
  }
  return applied;
}

}  // namespace emplace::interop
