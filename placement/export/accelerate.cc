// Export as a device map of Hugging Face's accelerate: modules of a PyTorch model on devices. The longest
// matching name decides.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text/words.h"
#include "placement/export/module_tree.h"
#include "placement/export/placement_formats.h"

namespace emplace::interop {
namespace {

using nlohmann::json;

/// The modules as a tree. Parents come before their children.
class Modules {
 public:
  /// Adds a module and, outermost first, those that contain it.
  std::size_t add(const std::string& name) {
    if (name.empty()) return 0;
    std::size_t at = 0;
    std::size_t dot = 0;
    do {
      dot = name.find('.', at == 0 ? 0 : dot + 1);
      const auto [it, fresh] = by_name_.try_emplace(name.substr(0, dot), nodes_.size());
      if (fresh) {
        nodes_[at].has_parts = true;
        nodes_.push_back({at, it->first, std::nullopt});
      }
      at = it->second;
    } while (dot != std::string::npos);
    return at;
  }
  std::size_t size() const { return nodes_.size(); }
  bool has_parts(std::size_t module) const { return nodes_[module].has_parts; }
  std::size_t parent(std::size_t module) const { return nodes_[module].parent; }
  void place(std::size_t module, DeviceId device) { nodes_[module].device = device; }
  /// The device of the module, or of the nearest one that contains it.
  std::optional<DeviceId> device_of(std::size_t module) const {
    while (module != 0 && !nodes_[module].device) module = nodes_[module].parent;
    return nodes_[module].device;
  }

  /// The smallest equivalent device map: a module whose parts all agree replaces them.
  std::vector<std::pair<std::string, DeviceId>> entries() const {
    // Device shared by a module and its parts, if any.
    std::vector<std::optional<DeviceId>> all(nodes_.size());
    std::vector<bool> mixed(nodes_.size(), false);
    for (std::size_t m = nodes_.size(); m-- > 0;) {
      if (nodes_[m].device && !mixed[m]) {
        if (all[m] && *all[m] != *nodes_[m].device) mixed[m] = true;
        all[m] = nodes_[m].device;
      }
      if (m == 0) break;
      const std::size_t parent = nodes_[m].parent;
      if (mixed[m] || (all[m] && all[parent] && *all[m] != *all[parent])) mixed[parent] = true;
      if (all[m] && !all[parent]) all[parent] = all[m];
    }
    std::vector<std::pair<std::string, DeviceId>> entries;
    std::vector<std::optional<DeviceId>> mapped(nodes_.size());  // Device of the nearest entry at or above.
    for (std::size_t m = 0; m < nodes_.size(); ++m) {
      if (m > 0) mapped[m] = mapped[nodes_[m].parent];
      const auto device = mixed[m] ? nodes_[m].device : all[m];
      if (!device || (mapped[m] && *mapped[m] == *device)) continue;
      mapped[m] = device;
      entries.emplace_back(nodes_[m].name, *device);
    }
    return entries;
  }

 private:
  struct Node {
    std::size_t parent = 0;
    std::string_view name;  ///< A key of by_name_; empty: the model.
    std::optional<DeviceId> device;
    bool has_parts = false;
  };

  std::map<std::string, std::size_t> by_name_;
  std::vector<Node> nodes_{{0, "", std::nullopt}};  // Node 0 is the model.
};

class DeviceMap {
 public:
  DeviceMap(const PlacementExport& what, const std::vector<FrameworkDevice>& devices,
            const std::vector<DeviceId>& replacement)
      : what_{what}, graph_{what.graph}, devices_{devices}, tree_{what.modules} {
    for (const DeviceId device : what.placement) applied_.push_back(replacement[index(device)]);
  }

  /// Errors (kInvalid): a module of the graph that the given tree does not have; a map of several modules for
  /// an ONNX model without its tree.
  Result<ExportedPlacement> make() {
    EMPLACE_TRY(find_modules());
    merge_unsplittable();
    vote();
    follow();
    complete();
    const auto entries = modules_.entries();
    const bool whole = entries.size() == 1 && entries.front().first.empty();
    if (what_.modules.empty() && !whole && graph_.source().starts_with("onnx"))
      return invalid(
          "--to accelerate",
          "an ONNX model does not name every module of its PyTorch model (batch norms are folded away)",
          "give the names of its modules with --modules FILE");
    json object = json::object();
    for (const auto& [name, device] : entries) {
      const FrameworkDevice& word = devices_[index(device)];
      object[name] = word.gpu ? json(word.number) : json("cpu");
    }
    return exported(what_, file_text(object), std::move(applied_));
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// The op that determines the device of `op` (a weight's update follows its weight); `op` itself if it is
  /// free.
  OpId leader(OpId op) const {
    while (graph_.colocated_with(op) != kNoOp) op = graph_.colocated_with(op);
    return op;
  }

  /// The module of an op is its scope, or that of its leader. A weight without a scope, or an input, gets
  /// the module of the first op that reads it.
  Result<Unit> find_modules() {
    const std::size_t n = graph_.num_ops();
    module_.assign(n, kNone);
    for (std::uint32_t i = 0; i < n; ++i) {
      const OpId op{i};
      if (leader(op) != op || graph_.group_name(op).empty() || graph_.type_name(op) == "Input") continue;
      std::string name = module_name(graph_.group_name(op));
      if (!what_.modules.empty()) {
        const auto known = tree_.find(name);
        if (!known)
          return invalid(
              "--modules",
              "has no module '" + printable(name, 80) + "', which " + quoted_op(graph_, op) + " is in",
              "give the modules of the model that the graph was made from");
        name = *known;
      }
      module_[i] = modules_.add(name);
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      const OpId op{i};
      if (module_[i] != kNone || !graph_.is_state(op)) continue;
      for (const OpId reader : graph_.readers(op))
        if (module_[i] == kNone) module_[i] = module_[index(reader)];
    }
    for (std::uint32_t i = 0; i < n; ++i) module_[i] = module_[index(leader(OpId{i}))];
    // A graph without scopes is one module: the model.
    if (modules_.size() == 1) std::fill(module_.begin(), module_.end(), 0);
    return Unit{};
  }

  /// Merges the parts of modules that must not be split (accelerate's no_split_module_classes). If a module's
  /// own code combines several tensors (a residual addition), they must be on one device, or PyTorch stops.
  /// Other code of a module with parts runs on the device of its input.
  void merge_unsplittable() {
    std::vector<bool> joins(modules_.size(), false);
    const auto is_own_code = [&](OpId op) {
      const std::size_t module = module_[index(op)];
      return module != kNone && module != 0 && modules_.has_parts(module) && !graph_.is_state(op);
    };
    for (const OpId op : graph_.topological_order()) {
      if (!is_own_code(op) || graph_.phase(op) != Phase::kForward) continue;
      OpId first = kNoOp;
      for (const TensorId input : graph_.inputs(op)) {
        const OpId producer = graph_.producer(input);
        if (graph_.is_state(producer) && graph_.type_name(producer) != "Input") continue;
        if (first != kNoOp && first != producer) joins[module_[index(op)]] = true;
        first = producer;
      }
    }
    std::vector<std::size_t> whole(modules_.size());  // Outermost unsplit ancestor, or the module itself.
    for (std::size_t m = 0; m < modules_.size(); ++m) {
      whole[m] = m;
      if (m == 0) continue;
      const std::size_t above = whole[modules_.parent(m)];
      if (joins[above]) whole[m] = above;
    }
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
      if (module_[i] == kNone) continue;
      const bool follows = is_own_code(OpId{i}) && !joins[whole[module_[i]]];
      module_[i] = follows ? kNone : whole[module_[i]];
    }
  }

  /// The device of a module is the one with most of its time; if times are unknown, with most of its work
  /// and traffic.
  void vote() {
    const std::vector<double> weights = op_weights(what_);
    std::map<std::pair<std::size_t, DeviceId>, double> votes;
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
      if (module_[i] != kNone) votes[{module_[i], applied_[i]}] += weights[i];
    std::vector<double> most(modules_.size(), 0);
    chosen_.resize(modules_.size());
    for (const auto& [key, weight] : votes) {
      if (weight <= most[key.first]) continue;
      most[key.first] = weight;
      chosen_[key.first] = key.second;
    }
    for (std::size_t m = 0; m < modules_.size(); ++m)
      if (most[m] > 0) modules_.place(m, chosen_[m]);
  }

  /// Ops run with their module. An op without a module runs on the device of its first input, as PyTorch's
  /// functions do. An op that must share a device (a weight's update) follows its leader.
  void follow() {
    std::vector<bool> known(graph_.num_ops(), false);
    for (const OpId op : graph_.topological_order()) {
      const std::size_t i = index(op);
      if (module_[i] != kNone) {
        applied_[i] = chosen_[module_[i]];
        known[i] = true;
      }
    }
    for (const OpId op : graph_.topological_order()) {
      if (known[index(op)]) continue;
      for (const TensorId input : graph_.inputs(op)) {
        const std::size_t from = index(graph_.producer(input));
        if (!known[from]) continue;
        applied_[index(op)] = applied_[from];
        known[index(op)] = true;
        break;
      }
    }
    for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) applied_[i] = applied_[index(leader(OpId{i}))];
  }

  /// Gives every leaf of the tree a device, so that the map is complete: that of its tensor or of a tensor in
  /// it (a convolution whose op has the scope of the batch norm that was folded into it), else that of the
  /// leaf before it (such a batch norm).
  void complete() {
    std::map<std::string_view, OpId> tensors;
    if (!what_.modules.empty())
      for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
        if (graph_.is_state(OpId{i})) tensors.try_emplace(graph_.name(OpId{i}), OpId{i});
    std::vector<std::size_t> first;  // Leaves before the first one with a device.
    std::optional<DeviceId> last;
    for (const std::string& name : what_.modules) {
      if (!tree_.is_leaf(name)) continue;
      const std::size_t module = modules_.add(name);
      if (const auto known = modules_.device_of(module)) {
        last = known;
        continue;
      }
      const auto tensor = tensors.lower_bound(name);
      const auto inside = tensors.lower_bound(name + ".");
      if (tensor != tensors.end() && tensor->first == name) {
        last = applied_[index(tensor->second)];
      } else if (inside != tensors.end() && inside->first.starts_with(name + ".")) {
        last = applied_[index(inside->second)];
      }
      if (last) {
        modules_.place(module, *last);
      } else {
        first.push_back(module);
      }
    }
    for (const std::size_t module : first)
      if (last) modules_.place(module, *last);
  }

  const PlacementExport& what_;
  const OpGraph& graph_;
  const std::vector<FrameworkDevice>& devices_;
  const ModuleTree tree_;
  Modules modules_;
  std::vector<std::size_t> module_;  // [ops]
  std::vector<DeviceId> chosen_;     // [modules]
  Placement applied_;
};

}  // namespace

Result<ExportedPlacement> placement_accelerate(const PlacementExport& what) {
  EMPLACE_TRY_ASSIGN(const auto devices, framework_devices(what));
  EMPLACE_TRY_ASSIGN(const auto replacement, one_cpu(what, devices, "accelerate"));
  return DeviceMap{what, devices, replacement}.make();
}

}  // namespace emplace::interop
