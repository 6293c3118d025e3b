#include "graph/formats/tensorflow/tf_step.h"

#include <fmt/core.h>
#include <tf_graphdef.pb.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <unordered_map>

#include "base/text/words.h"
#include "graph/formats/tensorflow/tf_ops.h"

namespace emplace::tf {
namespace {

bool is_saver(std::string_view type) {
  return is_one_of(type, {"Save", "SaveV2", "SaveSlices", "Restore", "RestoreV2", "RestoreSlice",
                          "MergeV2Checkpoints", "ShardedFilename"});
}

class StepReader {
 public:
  StepReader(const GraphDef& graph, const std::vector<bool>& idle, std::string_view where)
      : graph_{graph}, idle_{idle}, where_{where}, n_{static_cast<std::uint32_t>(graph.node_size())} {}

  Result<Step> read() {
    EMPLACE_TRY(number_nodes());
    EMPLACE_TRY(read_inputs());
    pass_identities();
    sort();
    find_variables();
    find_frames();
    find_one_offs();
    find_colocation();
    find_phases();
    return std::move(step_);
  }

 private:
  const NodeDef& node(std::uint32_t i) const { return graph_.node(static_cast<int>(i)); }
  Error fail(std::uint32_t i, std::string_view what, std::string_view cure = {}) const {
    return invalid(std::string{where_} + ": node " + in_quotes(node(i).name()), what, cure);
  }

  Result<Unit> number_nodes() {
    number_.reserve(n_);
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (node(i).name().empty()) return invalid(where_, fmt::format("node number {} has no name", i));
      if (node(i).op().empty()) return fail(i, "has no type (op)");
      if (node(i).attr_size() > kMaxAttributes)
        return fail(i, fmt::format("has more than {} attributes", kMaxAttributes));
      if (!number_.try_emplace(node(i).name(), i).second)
        return fail(i, "appears twice", "make names unique");
    }
    return Unit{};
  }

  /// Resolves "name", "name:2" or "^name".
  Result<Edge> edge_of(std::uint32_t reader, std::string_view text) const {
    Edge edge;
    edge.control = text.starts_with('^');
    std::string_view name = text.substr(edge.control ? 1 : 0);
    if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos && !edge.control) {
      const char* last = name.data() + name.size();
      const auto [end, error] = std::from_chars(name.data() + colon + 1, last, edge.output);
      if (error != std::errc{} || end != last)
        return fail(reader, "has the malformed input " + in_quotes(text));
      name = name.substr(0, colon);
    }
    const auto it = number_.find(name);
    if (it == number_.end())
      return fail(reader, "reads " + in_quotes(name) + ", which is not a node of the graph");
    edge.node = it->second;
    return edge;
  }

  Result<Unit> read_inputs() {
    step_.inputs.resize(n_);
    for (std::uint32_t i = 0; i < n_; ++i) {
      const bool merges = is_one_of(node(i).op(), {"Merge", "RefMerge"});
      for (const std::string& text : node(i).input()) {
        EMPLACE_TRY_ASSIGN(const auto edge, edge_of(i, text));
        // Drop back edges: the input of the next iteration is not an input of this one.
        if (merges && is_one_of(node(edge.node).op(), {"NextIteration", "RefNextIteration"})) {
          ++step_.back_edges;
        } else {
          step_.inputs[i].push_back(edge);
        }
      }
    }
    return Unit{};
  }

  /// Bypasses IdentityN nodes: readers read the inputs directly. As a view the node would be a piece of its
  /// first input.
  void pass_identities() {
    const auto input_of = [&](const Edge& edge) -> const Edge* {
      if (edge.control || node(edge.node).op() != "IdentityN") return nullptr;
      std::uint32_t k = 0;
      for (const Edge& input : step_.inputs[edge.node])
        if (!input.control && k++ == edge.output) return &input;
      return nullptr;
    };
    for (std::uint32_t i = 0; i < n_; ++i) {
      for (Edge& edge : step_.inputs[i]) {
        for (std::uint32_t steps = 0; steps < n_; ++steps) {  // Stop at a cycle; it is reported later.
          const Edge* input = input_of(edge);
          if (input == nullptr) break;
          edge = *input;
        }
      }
    }
  }

  /// Sorts topologically. Nodes of a cycle are left out; the graph's builder reports them.
  void sort() {
    std::vector<std::uint32_t> missing(n_, 0);
    readers_.resize(n_);
    for (std::uint32_t i = 0; i < n_; ++i) {
      missing[i] = static_cast<std::uint32_t>(step_.inputs[i].size());
      for (const Edge& edge : step_.inputs[i]) readers_[edge.node].push_back(i);
      if (missing[i] == 0) step_.order.push_back(i);
    }
    for (std::size_t k = 0; k < step_.order.size(); ++k)
      for (const std::uint32_t reader : readers_[step_.order[k]])
        if (--missing[reader] == 0) step_.order.push_back(reader);
  }

  /// A captured variable is a Placeholder of a handle; it becomes a variable if it is read or written.
  void find_variables() {
    for (std::uint32_t i = 0; i < n_; ++i) step_.role.push_back(role_of(node(i).op()));
    std::vector<std::uint32_t> handle(n_, kNoNode);  // Variable or Placeholder whose handle output 0 is.
    std::vector<bool> used(n_, false);
    for (const std::uint32_t i : step_.order) {
      const bool placeholder = step_.role[i] == Role::kPlaceholder && !output_dtype(node(i), 0);
      if (placeholder || step_.role[i] == Role::kVariable) handle[i] = i;
      if (step_.inputs[i].empty() || step_.inputs[i][0].control) continue;
      const std::uint32_t from = handle[step_.inputs[i][0].node];
      if (from == kNoNode) continue;
      if (is_view(node(i).op()) && !output_dtype(node(i), 0)) handle[i] = from;
      if (uses_variable(node(i).op())) used[from] = true;
      // The slots of an optimiser are further inputs.
      for (const Edge& edge : step_.inputs[i])
        if (!edge.control && is_optimizer(node(i).op()) && handle[edge.node] != kNoNode)
          used[handle[edge.node]] = true;
    }
    for (std::uint32_t i = 0; i < n_; ++i)
      if (used[i]) step_.role[i] = Role::kVariable;
    step_.variable.assign(n_, kNoNode);
    for (std::uint32_t i = 0; i < n_; ++i)
      if (handle[i] != kNoNode && step_.role[handle[i]] == Role::kVariable) step_.variable[i] = handle[i];
  }

  /// The nodes of a loop are those between its Enter and Exit nodes. Nested loops belong to the outermost
  /// one.
  void find_frames() {
    struct Frame {
      std::uint32_t depth = 0, parent = 0, outermost = 0;
    };
    std::vector<Frame> frames(1);
    std::vector<std::uint32_t> inside(n_, 0);  // Index into `frames`.
    std::unordered_map<std::string_view, std::uint32_t> by_name;
    step_.frame.assign(n_, 0);
    step_.frames = {""};
    for (const std::uint32_t i : step_.order) {
      std::uint32_t around = 0;
      for (const Edge& edge : step_.inputs[i]) {
        const bool exit = is_one_of(node(edge.node).op(), {"Exit", "RefExit"});
        const std::uint32_t from = exit ? frames[inside[edge.node]].parent : inside[edge.node];
        if (frames[from].depth > frames[around].depth) around = from;
      }
      if (is_one_of(node(i).op(), {"Enter", "RefEnter"})) {
        const AttrValue* name = find(node(i), "frame_name");
        const std::string_view frame = name == nullptr ? std::string_view{} : name->s();
        const auto [it, fresh] = by_name.try_emplace(frame, static_cast<std::uint32_t>(frames.size()));
        if (fresh) {
          std::uint32_t outermost = frames[around].outermost;
          if (around == 0) {
            outermost = static_cast<std::uint32_t>(step_.frames.size());
            step_.frames.emplace_back(frame);
          }
          frames.push_back({frames[around].depth + 1, around, outermost});
        }
        around = it->second;
      }
      inside[i] = around;
      step_.frame[i] = frames[around].outermost;
    }
  }

  /// Finds one-off nodes: savers, a variable's initial assignment, nodes that wait for one of these, and
  /// nodes read only by such nodes. A step cannot wait for an initialisation, which would undo previous
  /// steps.
  void find_one_offs() {
    step_.one_off.assign(n_, false);
    std::vector<std::uint32_t> found;
    const auto mark = [&](std::uint32_t i) {
      if (step_.one_off[i]) return;
      step_.one_off[i] = true;
      found.push_back(i);
    };
    for (std::uint32_t i = 0; i < n_; ++i) {
      const std::string_view type = node(i).op(), name = node(i).name();
      if (is_saver(type) || (!idle_.empty() && idle_[i])) mark(i);
      if (is_one_of(type, {"Assign", "AssignVariableOp"}) && !step_.inputs[i].empty()) {
        const NodeDef& variable = node(step_.inputs[i].front().node);
        if (step_.role[step_.inputs[i].front().node] == Role::kVariable &&
            name == variable.name() + "/Assign")
          mark(i);
      }
      if (is_one_of(type, {"IsVariableInitialized", "VarIsInitializedOp"}) &&
          name.starts_with("report_uninitialized"))
        mark(i);
    }
    for (std::size_t k = 0; k < found.size(); ++k)
      for (const std::uint32_t reader : readers_[found[k]])
        if (step_.role[reader] == Role::kWork) mark(reader);
    std::vector<std::size_t> left(n_);
    for (std::uint32_t i = 0; i < n_; ++i) left[i] = readers_[i].size();
    for (std::size_t k = 0; k < found.size(); ++k) {
      for (const Edge& edge : step_.inputs[found[k]]) {
        const Role role = step_.role[edge.node];
        if (--left[edge.node] == 0 && role != Role::kVariable && role != Role::kPlaceholder) mark(edge.node);
      }
    }
  }

  std::uint32_t root(std::uint32_t i) {
    while (step_.leader[i] != i) i = step_.leader[i] = step_.leader[step_.leader[i]];
    return i;
  }
  void join(std::uint32_t a, std::uint32_t b) {
    a = root(a), b = root(b);
    step_.leader[std::max(a, b)] = std::min(a, b);
  }

  /// Returns whether the edge carries a reference, which cannot leave its device, instead of data.
  bool is_reference(std::uint32_t reader, std::size_t position) const {
    const Edge& edge = step_.inputs[reader][position];
    if (edge.control) return false;
    const NodeDef& producer = node(edge.node);
    if (producer.op() == "VarHandleOp" || !output_dtype(producer, edge.output)) return true;
    if (step_.role[edge.node] != Role::kVariable) return false;
    return is_optimizer(node(reader).op()) || (position == 0 && takes_reference(node(reader).op()));
  }

  void find_colocation() {
    step_.leader.resize(n_);
    std::iota(step_.leader.begin(), step_.leader.end(), 0u);
    // Groups by `_class` entry, which need not be a node.
    std::unordered_map<std::string_view, std::uint32_t> groups;
    std::vector<std::uint32_t> of_frame(step_.frames.size(), n_);
    for (std::uint32_t i = 0; i < n_; ++i) {
      if (const AttrValue* classes = find(node(i), "_class")) {
        for (const std::string_view group : classes->list().s()) {
          if (!group.starts_with("loc:@")) continue;
          if (const auto target = number_.find(group.substr(5)); target != number_.end())
            join(i, target->second);
          join(i, groups.try_emplace(group, i).first->second);
        }
      }
      for (std::size_t k = 0; k < step_.inputs[i].size(); ++k)
        if (is_reference(i, k)) join(i, step_.inputs[i][k].node);
      if (step_.frame[i] != 0) {
        std::uint32_t& first = of_frame[step_.frame[i]];
        if (first == n_) first = i;
        join(i, first);
      }
    }
    for (std::uint32_t i = 0; i < n_; ++i) step_.leader[i] = root(i);
  }

  /// A reader of a gradient is not in an earlier phase; nodes that depend on an update are in the update
  /// phase.
  void find_phases() {
    step_.phase.assign(n_, Phase::kForward);
    for (const std::uint32_t i : step_.order) {
      if (step_.role[i] != Role::kWork || step_.one_off[i]) continue;
      const auto& inputs = step_.inputs[i];
      const bool waits_only =
          std::all_of(inputs.begin(), inputs.end(), [](const Edge& edge) { return edge.control; });
      Phase phase = is_update(node(i).op())       ? Phase::kUpdate
                    : is_gradient(node(i).name()) ? Phase::kBackward
                                                  : Phase::kForward;
      for (const Edge& edge : inputs)
        if (!edge.control || waits_only) phase = std::max(phase, step_.phase[edge.node]);
      step_.phase[i] = phase;
    }
  }

  const GraphDef& graph_;
  const std::vector<bool>& idle_;
  const std::string_view where_;
  const std::uint32_t n_;
  std::unordered_map<std::string_view, std::uint32_t> number_;
  std::vector<std::vector<std::uint32_t>> readers_;  // One entry per edge.
  Step step_;
};

}  // namespace

Result<Step> step_of(const GraphDef& graph, const std::vector<bool>& idle, std::string_view where) {
  return StepReader{graph, idle, where}.read();
}

bool is_gradient(std::string_view name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part == "gradients" || part.starts_with("gradients_") || part == "gradient_tape") return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace emplace::tf
