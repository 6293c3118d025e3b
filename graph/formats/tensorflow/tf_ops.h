#pragma once
/// Properties of TensorFlow's ops by type: state, views, output types and work.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/formats/reading/shape_arithmetic.h"
#include "graph/op_graph.h"

namespace emplace::tf {

class AttrValue;
class NodeDef;

/// The first attribute `name` of a node, or null.
const AttrValue* find(const NodeDef& node, std::string_view name);

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> types);

/// The role of a node in a step.
enum class Role : std::uint8_t {
  kWork,
  kVariable,     ///< Memory that updates write.
  kConstant,     ///< A Const.
  kPlaceholder,  ///< An input that is fed to a step.
};
Role role_of(std::string_view type);

/// Returns whether the op has no data or passes on its first input's data.
bool is_view(std::string_view type);
/// Returns whether the op writes the variable at input 0: ApplyAdam and similar ops, and assignments.
bool is_update(std::string_view type);
/// Returns whether the op is an optimiser's: input 0 is trained, other variables among the inputs are its
/// slots.
bool is_optimizer(std::string_view type);
/// Returns whether input 0 is a variable itself, not its value; the op runs where the variable is.
bool takes_reference(std::string_view type);
/// Returns whether the op reads or writes the variable whose handle is input 0.
bool uses_variable(std::string_view type);
/// Returns whether the op calls a function named by an attribute.
bool is_call(std::string_view type);

/// The type of output `output`; nothing for handles (queues, tensor arrays, variants). A string counts as one
/// byte.
std::optional<DType> output_dtype(const NodeDef& node, std::size_t output);
std::optional<DType> dtype_of(int data_type);

/// The position of output `output_name` among all outputs of the node, as function bodies refer to it:
/// "node:output_name:k" is output first_output + k. 0 for a type with one output, or an unknown type.
std::uint32_t first_output(const NodeDef& node, std::string_view output_name);
/// The length of a list output, which `attribute` contains as a number or as a list of types; 0 if the
/// attribute is missing, at most 2^20.
std::uint32_t list_length(const NodeDef& node, std::string_view attribute);

/// Floating-point operations by the formulas of the traced graphs; a multiply-add counts as two, integer work
/// and data movement as 0.
///   inputs, outputs   shapes by argument position
///   floating          whether the first output is of a floating-point type
/// A shape of the wrong rank gives 0; the result is at most 2^60. Pure.
std::int64_t flops(const NodeDef& node, std::span<const Shape> inputs, std::span<const Shape> outputs,
                   bool floating);
/// Returns whether flops() has a rule for the type, or the type does no floating-point arithmetic (data
/// movement, control flow).
bool work_is_known(std::string_view type);

}  // namespace emplace::tf
