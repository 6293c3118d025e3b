#include "placement/export/module_units.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/text/words.h"

namespace emplace::interop {
namespace {

std::string_view last_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

/// "lm_head.weight = embed.weight": a tensor that is another one.
constexpr std::string_view kTie = " = ";

std::vector<std::string> without_ties(std::vector<std::string> names) {
  for (std::string& name : names) name.resize(std::min(name.size(), name.find(kTie)));
  return names;
}

/// The source of graphs that the Python package traces. Its trees have only the modules with tensors.
constexpr std::string_view kTrace = "emplace.trace";

/// Whether a scope is one that a trace gives to what is outside of the model.
bool is_outside(std::string_view scope) {
  return scope == "loss" || scope == "optimizer" || scope == "input";
}

}  // namespace

ModuleUnits::ModuleUnits(const PlacementExport& what)
    : graph_{what.graph}, names_{without_ties(what.modules)}, tree_{names_} {
  for (const std::string& name : what.modules)
    if (const std::size_t tie = name.find(kTie); tie != std::string::npos)
      ties_of_.emplace(name.substr(0, tie), name.substr(tie + kTie.size()));
}

Result<ModuleUnits> ModuleUnits::make(const PlacementExport& what) {
  ModuleUnits units{what};
  EMPLACE_TRY(units.find_modules());
  units.find_forms();
  units.find_joins();
  units.split();
  units.tie();
  units.number();
  return units;
}

/// Adds a module and, outermost first, those that contain it.
std::uint32_t ModuleUnits::add(const std::string& name) {
  if (name.empty()) return 0;
  std::uint32_t at = 0;
  std::size_t dot = 0;
  do {
    dot = name.find('.', at == 0 ? 0 : dot + 1);
    const auto [it, fresh] =
        by_name_.try_emplace(name.substr(0, dot), static_cast<std::uint32_t>(modules_.size()));
    if (fresh) {
      modules_[at].has_parts = true;
      modules_.push_back({.parent = at, .name = it->first});
    }
    at = it->second;
  } while (dot != std::string::npos);
  return at;
}

/// The op that determines the device of `op` (a weight's update follows its weight); `op` itself if it is
/// free.
OpId ModuleUnits::leader(OpId op) const {
  while (graph_.colocated_with(op) != kNoOp) op = graph_.colocated_with(op);
  return op;
}

/// The module of an op is its scope. A trace gives the model's own code the name of the model, and has scopes
/// for what is no module. Another scope that the tree does not have is code of the module around it, such as
/// a parametrization, unless it has weights of its own.
Result<std::uint32_t> ModuleUnits::module_of(OpId op) {
  const std::string name = module_name(graph_.group_name(op));
  if (name == graph_.name() || is_outside(name)) return 0;
  if (names_.empty()) return add(name);
  if (const auto known = tree_.find(name)) return add(*known);
  if (graph_.source() != kTrace || is_weight(op))
    return invalid("--modules",
                   "has no module '" + printable(name, 80) + "', which " + quoted_op(graph_, op) + " is in",
                   "give the modules of the model that the graph was made from");
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1))
    if (const auto known = tree_.find(name.substr(0, dot))) return add(*known);
  return 0;
}

/// An op has the module of its leader. A weight without a scope has that of the first op that reads it.
Result<Unit> ModuleUnits::find_modules() {
  const std::size_t n = graph_.num_ops();
  module_.assign(n, kNone);
  for (std::uint32_t i = 0; i < n; ++i) {
    const OpId op{i};
    if (leader(op) != op || graph_.group_name(op).empty() || graph_.type_name(op) == "Input") continue;
    EMPLACE_TRY_ASSIGN(module_[i], module_of(op));
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    const OpId op{i};
    if (module_[i] != kNone || !graph_.is_state(op)) continue;
    for (const OpId reader : graph_.readers(op))
      if (module_[i] == kNone) module_[i] = module_[index(reader)];
  }
  bool any = false;
  for (std::uint32_t i = 0; i < n; ++i) {
    module_[i] = module_[index(leader(OpId{i}))];
    if (module_[i] == kNone) module_[i] = 0;
    if (!is_weight(OpId{i})) continue;
    modules_[module_[i]].own_state = true;
    any = any || module_[i] != 0;
  }
  for (std::uint32_t i = 0; i < n; ++i) mark_tied(OpId{i});
  for (std::size_t m = modules_.size(); m-- > 0;) {
    modules_[m].stateful = modules_[m].stateful || modules_[m].own_state || !any;
    if (modules_[m].stateful) modules_[modules_[m].parent].stateful = true;
  }
  return Unit{};
}

/// A module that reads the weight of another one, which does not contain it, has that weight, too.
void ModuleUnits::mark_tied(OpId weight) {
  if (!is_weight(weight) || !may_be_tied(weight)) return;
  for (const OpId reader : graph_.readers(weight)) {
    const std::uint32_t module = module_[index(reader)];
    std::uint32_t above = module_[index(weight)];
    while (above != module && above != 0) above = modules_[above].parent;
    if (graph_.phase(reader) == Phase::kForward && above != module) modules_[module].own_state = true;
  }
}

/// Which modules are lists, and which are equal.
void ModuleUnits::find_forms() {
  std::vector<std::size_t> parts(modules_.size(), 0), numbered(modules_.size(), 0);
  std::vector<std::size_t> composites(modules_.size(), 0);  // Parts that have parts.
  std::vector<std::set<std::uint64_t>> forms(modules_.size()), composed(modules_.size());
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i)
    if (is_weight(OpId{i}))
      modules_[module_[i]].form += 1 + static_cast<std::uint64_t>(graph_.output_bytes(OpId{i}));
  for (std::size_t m = modules_.size(); m-- > 0;) {
    Module& module = modules_[m];
    module.is_list = parts[m] > 0 && numbered[m] == parts[m];
    module.has_list = module.has_list || module.is_list;
    module.has_repeats = module.has_repeats || (module.is_list && forms[m].size() < parts[m]);
    module.has_blocks = module.has_blocks || (module.is_list && composed[m].size() < composites[m]);
    if (m == 0 || !module.stateful) continue;
    const std::string_view name = last_name(module.name);
    Module& parent = modules_[module.parent];
    ++parts[module.parent];
    numbered[module.parent] += is_number(name) ? 1 : 0;
    forms[module.parent].insert(module.form);
    if (parts[m] > 0) {
      ++composites[module.parent];
      composed[module.parent].insert(module.form);
    }
    parent.form += (std::hash<std::string_view>{}(name) ^ module.form) * 0x9E3779B97F4A7C15ull;
    parent.has_list = parent.has_list || module.has_list;
    parent.has_repeats = parent.has_repeats || module.has_repeats;
    parent.has_blocks = parent.has_blocks || module.has_blocks;
  }
}

/// The nearest module that has weights, at or above the given one.
std::uint32_t ModuleUnits::around(std::uint32_t module) const {
  while (module != 0 && !modules_[module].stateful) module = modules_[module].parent;
  return module;
}

bool ModuleUnits::contains(std::uint32_t module, std::uint32_t part) const {
  while (part != module && part != 0) part = modules_[part].parent;
  return part == module;
}

/// Which modules combine tensors in their own code, such as a residual addition.
void ModuleUnits::find_joins() {
  std::vector<std::uint32_t> from(graph_.num_ops(), kNone);  // The module that made an op's first input.
  const auto in_element = [&](std::uint32_t module, std::uint32_t above) {
    for (; module != kNone && module != 0 && module != above; module = modules_[module].parent)
      if (modules_[modules_[module].parent].is_list) return module;
    return kNone;
  };
  for (const OpId op : graph_.topological_order()) {
    if (graph_.is_state(op) || graph_.phase(op) != Phase::kForward) continue;
    const std::uint32_t module = around(module_[index(op)]);
    from[index(op)] = module;
    OpId first = kNoOp;
    std::uint32_t element = kNone;
    bool own = false,
         beside = false;  // Whether inputs are results of the module's own elements, and of none.
    for (const TensorId input : graph_.inputs(op)) {
      const OpId producer = graph_.producer(input);
      if (is_weight(producer)) continue;
      if (from[index(op)] == module && from[index(producer)] != kNone)
        from[index(op)] = from[index(producer)];
      if (first != kNoOp && first != producer) modules_[module].joins = true;
      first = producer;
      const std::uint32_t other = in_element(from[index(producer)], module);
      if (element != kNone && other != kNone && other != element) modules_[module].joins_elements = true;
      if (other != kNone) element = other;
      (other == kNone ? beside : own) |= other == kNone || contains(module, other);
    }
    if (own && beside) modules_[module].bridges = true;
    if (!modules_[module].has_list) from[index(op)] = module;  // A result of this module, not of its input's.
  }
}

/// Decides which modules have entries for their parts, and gives each other one and each set of own weights a
/// node.
void ModuleUnits::split() {
  std::vector<bool> has_stateful_parts(modules_.size(), false);
  for (std::size_t m = 1; m < modules_.size(); ++m)
    if (modules_[m].stateful) has_stateful_parts[modules_[m].parent] = true;
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    Module& module = modules_[m];
    if (m > 0 && (!module.stateful || !modules_[module.parent].split)) {
      module.node = modules_[module.parent].split ? kNone : modules_[module.parent].node;
      continue;
    }
    if (m == 0) {
      module.split = has_stateful_parts[0];
    } else if (has_stateful_parts[m]) {
      const bool element = modules_[module.parent].is_list;
      module.split = element ? !module.joins && !module.own_state && module.has_repeats
                             : (module.has_list && !module.joins_elements && !is_block(module)) ||
                                   (!module.joins && !module.own_state);
    }
    if (module.split && !module.own_state) continue;
    module.node = static_cast<std::uint32_t>(ties_.size());
    ties_.push_back(module.node);
  }
  if (modules_[0].split && modules_[0].own_state) main_node_ = modules_[0].node;
}

std::uint32_t ModuleUnits::top(std::uint32_t node) {
  while (ties_[node] != node) node = ties_[node] = ties_[ties_[node]];
  return node;
}

void ModuleUnits::unite(std::uint32_t a, std::uint32_t b) {
  a = top(a), b = top(b);
  ties_[std::max(a, b)] = std::min(a, b);
}

/// An exporter of ONNX makes one tensor of equal ones, such as constants, and scales and biases of a new
/// model: that several modules read it is no tie.
bool ModuleUnits::may_be_tied(OpId op) const {
  if (!is_weight(op)) return true;
  return graph_.type_name(op) != "Constant" &&
         (!graph_.source().starts_with("onnx") || graph_.shape(graph_.first_output(op)).size() > 1);
}

/// A weight that another unit reads is one that both share.
void ModuleUnits::tie_readers(OpId op) {
  const std::uint32_t own = node_[index(op)];
  if (own == kNone || !may_be_tied(op)) return;
  for (const OpId reader : graph_.readers(op))
    if (graph_.phase(reader) == Phase::kForward && node_[index(reader)] != kNone)
      unite(own, node_[index(reader)]);
}

/// The node of an op outside of the units: that of its first input that has one. All of its inputs must be
/// where it runs.
void ModuleUnits::follow(OpId op) {
  std::uint32_t& node = node_[index(op)];
  const bool forward = graph_.phase(op) == Phase::kForward;
  const bool outside = is_outside(graph_.group_name(op));
  bool input = false;
  for (const TensorId tensor : graph_.inputs(op)) {
    const std::size_t from = index(graph_.producer(tensor));
    input = input || of_input_[from];
    if (node_[from] == kNone || !may_be_tied(graph_.producer(tensor))) continue;
    if (node == kNone) node = node_[from];
    if (forward && !outside) unite(node, node_[from]);
  }
  of_input_[index(op)] = input && node == kNone;
  if (!input || node == kNone || !forward || outside) return;
  // The model's inputs are on its main device. Labels, which are read after the last module, are moved.
  if (index(op) > last_in_unit_) return;
  if (main_node_ == kNone) main_node_ = node;
  unite(main_node_, node);
}

void ModuleUnits::tie() {
  const std::size_t n = graph_.num_ops();
  node_.assign(n, kNone);
  of_input_.assign(n, false);
  for (std::uint32_t i = 0; i < n; ++i) {
    const Module& module = modules_[around(module_[i])];
    of_input_[i] = graph_.type_name(OpId{i}) == "Input";
    // The own code of a module that is split is outside of the units; its weights are one.
    if (of_input_[i] || (module.split && !is_weight(leader(OpId{i})))) continue;
    node_[i] = module.node;
    if (!graph_.is_state(OpId{i}) && graph_.phase(OpId{i}) == Phase::kForward) last_in_unit_ = i;
  }
  for (std::uint32_t i = 0; i < n; ++i)
    if (is_weight(OpId{i})) tie_readers(OpId{i});
  for (const OpId op : graph_.topological_order())
    if (node_[index(op)] == kNone && !graph_.is_state(op)) follow(op);
  // What is made from nothing, or from inputs alone, is where it is read first.
  const auto order = graph_.topological_order();
  for (std::size_t k = order.size(); k-- > 0;) {
    std::uint32_t& node = node_[index(order[k])];
    for (const OpId reader : graph_.readers(order[k]))
      if (node == kNone) node = node_[index(reader)];
  }
}

/// Numbers the units in the order of the forward pass.
void ModuleUnits::number() {
  std::vector<std::uint32_t> number(ties_.size(), kNone);
  unit_of_op_.assign(graph_.num_ops(), 0);
  const auto unit_of = [&](std::uint32_t node) {
    std::uint32_t& unit = number[top(node)];
    if (unit == kNone) unit = static_cast<std::uint32_t>(size_++);
    return unit;
  };
  for (const OpId op : graph_.topological_order())
    if (node_[index(op)] != kNone && !graph_.is_state(op) && graph_.phase(op) == Phase::kForward)
      unit_of(node_[index(op)]);
  for (std::uint32_t node = 0; node < ties_.size(); ++node) unit_of(node);
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
    const std::uint32_t node = node_[index(leader(OpId{i}))];
    unit_of_op_[i] = node == kNone ? 0 : unit_of(node);
  }
  for (Module& module : modules_)
    if (module.node != kNone) module.node = unit_of(module.node);
  if (main_node_ != kNone) main_ = unit_of(main_node_);
}

/// Leaves of the tree that are not in the graph are on the device of a tensor in them (a convolution whose op
/// has the scope of the batch norm that was folded into it), else on that of the leaf before (such a batch
/// norm).
void ModuleUnits::add_leaves(std::vector<std::optional<DeviceId>>& device,
                             const std::map<std::string_view, DeviceId>& tensors) {
  const auto above = [&](std::uint32_t module) {
    while (module != 0 && !device[module]) module = modules_[module].parent;
    return device[module];
  };
  std::vector<std::uint32_t> first;  // Leaves before the first one with a device.
  std::optional<DeviceId> last;
  for (const std::string& name : names_) {
    if (!tree_.is_leaf(name)) continue;
    const std::size_t known = modules_.size();
    const std::uint32_t module = add(name);
    device.resize(modules_.size());
    if (const auto mapped = above(module)) {
      last = mapped;
      continue;
    }
    if (module < known && !modules_[module].stateful) continue;  // Code without weights.
    const auto tie = ties_of_.find(name);
    const auto tensor = tensors.find(tie == ties_of_.end() ? name : tie->second);
    const auto inside = tensors.lower_bound(name + ".");
    if (tensor != tensors.end()) {
      last = tensor->second;
    } else if (inside != tensors.end() && inside->first.starts_with(name + ".")) {
      last = inside->second;
    }
    device[module] = last;
    if (!last) first.push_back(module);
  }
  for (const std::uint32_t module : first) device[module] = last;
}

std::vector<std::pair<std::string, DeviceId>> ModuleUnits::entries(
    const std::vector<DeviceId>& devices) const {
  ModuleUnits all{*this};  // Includes modules of the tree that the graph does not have.
  std::vector<std::optional<DeviceId>> device;
  for (const Module& module : modules_)
    device.push_back(module.node == kNone ? std::nullopt : std::optional{devices[module.node]});
  if (modules_[0].split) device[0] = std::nullopt;
  std::map<std::string_view, DeviceId> tensors;
  for (std::uint32_t i = 0; i < graph_.num_ops(); ++i) {
    if (!is_weight(OpId{i}) || leader(OpId{i}) != OpId{i}) continue;
    tensors.try_emplace(graph_.name(OpId{i}), devices[unit_of_op_[i]]);
    // A weight of the model itself has an entry of its own.
    if (!names_.empty() || module_[i] != 0 || !modules_[0].split) continue;
    const std::uint32_t module = all.add(std::string{graph_.name(OpId{i})});
    device.resize(all.modules_.size());
    device[module] = devices[unit_of_op_[i]];
  }
  all.add_leaves(device, tensors);
  return all.smallest(device);
}

std::vector<std::pair<std::string, DeviceId>> ModuleUnits::smallest(
    std::vector<std::optional<DeviceId>> device) const {
  // Device shared by a module and its parts, if any.
  std::vector<std::optional<DeviceId>> shared(modules_.size());
  std::vector<bool> mixed(modules_.size(), false);
  for (std::size_t m = modules_.size(); m-- > 0;) {
    if (device[m] && !mixed[m]) {
      if (shared[m] && *shared[m] != *device[m]) mixed[m] = true;
      shared[m] = device[m];
    }
    if (m == 0) break;
    const std::size_t parent = modules_[m].parent;
    if (mixed[m] || (shared[m] && shared[parent] && *shared[m] != *shared[parent])) mixed[parent] = true;
    if (shared[m] && !shared[parent]) shared[parent] = shared[m];
  }
  std::vector<std::pair<std::string, DeviceId>> entries;
  std::vector<std::optional<DeviceId>> mapped(modules_.size());  // Device of the nearest entry at or above.
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    if (m > 0) mapped[m] = mapped[modules_[m].parent];
    const auto own = mixed[m] ? device[m] : shared[m];
    if (!own || (mapped[m] && *mapped[m] == *own)) continue;
    mapped[m] = own;
    entries.emplace_back(modules_[m].name, *own);
  }
  return entries;
}

}  // namespace emplace::interop
