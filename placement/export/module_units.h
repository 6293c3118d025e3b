#pragma once
/// The modules of a PyTorch model that a device map may put on devices of their own.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/export/module_tree.h"
#include "placement/export/placement_formats.h"

namespace emplace::interop {

/// Divides a model into units: sets of modules that a device map keeps on one device.
///
/// Blocks (elements of module lists, and modules with a residual around a list of layers) and the modules
/// beside them are whole; what contains them is split. A block that only passes its input through a list of
/// equal modules is split, too. One unit are
/// - modules that share a weight;
/// - modules whose results are combined by the code of a module that is split: accelerate moves the inputs of
///   modules that are in the map to their device, and nothing else.
/// Every op belongs to a unit, and runs on its device: an op outside of them where its first input is, as in
/// PyTorch. A module without weights that is not in a unit has no entry, so it is code of the one around it.
class ModuleUnits {
 public:
  /// Errors (kInvalid): a tree that lacks a module of the graph.
  static Result<ModuleUnits> make(const PlacementExport& what);

  /// [ops] Units are numbered in the order in which the forward pass enters them.
  const std::vector<std::uint32_t>& unit_of_op() const { return unit_of_op_; }
  std::size_t size() const { return size_; }
  /// The unit whose modules are combined with inputs of the model, or that has weights of the model itself:
  /// accelerate puts both on the GPU with the lowest number in use.
  std::optional<std::uint32_t> main() const { return main_; }

  /// The smallest map that puts each unit ([units]) on its device: a module whose parts agree replaces them.
  /// With a tree every tensor of it is covered.
  std::vector<std::pair<std::string, DeviceId>> entries(const std::vector<DeviceId>& devices) const;

 private:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);
  struct Module {
    std::uint32_t parent = 0;
    std::string_view name;  ///< A key of by_name_; empty: the model.
    bool has_parts = false;
    bool split = false;
    bool stateful = false;        ///< It or a module in it has weights.
    bool own_state = false;       ///< It has weights of its own.
    bool joins = false;           ///< Its own code combines tensors.
    bool joins_elements = false;  ///< Its own code combines results of elements of lists.
    bool bridges = false;         ///< Its own code combines a result of an element with another.
    bool is_list = false;         ///< All its parts have numbers as names.
    bool has_list = false;        ///< It or a module in it is a list.
    bool has_repeats = false;     ///< It or a module in it is a list with two equal elements.
    bool has_blocks = false;      ///< As has_repeats, and these elements have parts.
    std::uint64_t form = 0;       ///< Equal for modules with equal parts and weights.
    std::uint32_t node = kNone;   ///< Its node of the ties.
  };

  explicit ModuleUnits(const PlacementExport& what);
  std::uint32_t add(const std::string& name);
  OpId leader(OpId op) const;
  Result<Unit> find_modules();
  Result<std::uint32_t> module_of(OpId op);
  void mark_tied(OpId weight);
  void find_forms();
  void find_joins();
  void split();
  void tie();
  void tie_readers(OpId op);
  void follow(OpId op);
  void number();
  void add_leaves(std::vector<std::optional<DeviceId>>& device,
                  const std::map<std::string_view, DeviceId>& tensors);
  std::vector<std::pair<std::string, DeviceId>> smallest(std::vector<std::optional<DeviceId>> device) const;
  bool may_be_tied(OpId op) const;
  std::uint32_t around(std::uint32_t module) const;
  bool contains(std::uint32_t module, std::uint32_t part) const;
  std::uint32_t top(std::uint32_t node);
  void unite(std::uint32_t a, std::uint32_t b);
  /// Whether a module that has a list is itself a block, with a residual around a list of layers (the
  /// perceptron of a transformer's block), and not a body of blocks.
  static bool is_block(const Module& module) { return module.bridges && !module.has_blocks; }
  /// State that belongs to a module: not an input, and not what an optimizer keeps.
  bool is_weight(OpId op) const {
    return graph_.is_state(op) && graph_.type_name(op) != "Input" && graph_.type_name(op) != "OptimizerState";
  }

  const OpGraph& graph_;
  const std::vector<std::string> names_;  ///< Modules and tensors of the tree; empty: unknown.
  const ModuleTree tree_;
  std::map<std::string, std::string> ties_of_;  ///< Tensor of the tree → the tensor that it is.
  std::map<std::string, std::uint32_t> by_name_;
  std::vector<Module> modules_{Module{}};  ///< Parents come before their parts; number 0 is the model.
  std::vector<std::uint32_t> module_;      ///< [ops]
  std::vector<std::uint32_t> node_;        ///< [ops] Node of the ties; kNone: not known yet.
  std::vector<bool> of_input_;             ///< [ops] Made of inputs of the model alone, outside of the units.
  std::vector<std::uint32_t> ties_;        ///< [nodes] The node above, in a forest.
  std::uint32_t main_node_ = kNone;
  std::size_t last_in_unit_ = 0;  ///< Position of the last forward op of a unit.
  std::vector<std::uint32_t> unit_of_op_;
  std::size_t size_ = 0;
  std::optional<std::uint32_t> main_;
};

}  // namespace emplace::interop
