#pragma once
/// What is known of TensorFlow's ops by their type: state, views, the types and the work of their outputs.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"

namespace emplace::tf {

class AttrValue;
class NodeDef;

/// A node's attribute, or null. The first of that name.
const AttrValue* find(const NodeDef& node, std::string_view name);

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> types);

/// What a node is in a step.
enum class Role : std::uint8_t {
  kWork,
  kVariable,     ///< Memory that updates write.
  kConstant,     ///< Const.
  kPlaceholder,  ///< What a step is fed.
};
Role role_of(std::string_view type);

/// Passes on its first input's data, or has none.
bool is_view(std::string_view type);
/// ApplyAdam and its like, and assignments: they write the variable that is their first input.
bool is_update(std::string_view type);
/// An optimiser's: the first input is trained, other variables among the inputs are its slots.
bool is_optimizer(std::string_view type);
/// Takes a variable itself, not its value, as first input: it runs where the variable is.
bool takes_reference(std::string_view type);
/// Reads or writes the variable whose handle is its first input.
bool uses_variable(std::string_view type);
/// Calls a function that an attribute names.
bool is_call(std::string_view type);

/// Type of output `output`; nothing for handles (queues, tensor arrays, variants). A string counts as a byte.
std::optional<DType> output_dtype(const NodeDef& node, std::size_t output);
std::optional<DType> dtype_of(int data_type);

using Shape = std::vector<std::int64_t>;
/// Floating-point operations by the formulas of the traced graphs, a multiply-add being two; whole-number
/// work and movement count nothing.
///   inputs, outputs   by argument position
///   floating          the first output is of a floating-point type
/// A shape of the wrong rank gives 0; nothing exceeds 2^60. Pure.
std::int64_t flops(const NodeDef& node, std::span<const Shape> inputs, std::span<const Shape> outputs,
                   bool floating);
/// True if flops() knows the type, or if it moves data, decides or steers and does no arithmetic on floats.
bool work_is_known(std::string_view type);

}  // namespace emplace::tf
