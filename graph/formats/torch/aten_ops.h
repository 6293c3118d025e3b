#pragma once
/// Calls of torch operators as ops: their type, attributes and work, as the traced training graphs have them.
/// What readers of FX text and of exported programs share.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

/// An argument of a call.
struct AtenArg {
  enum class Kind : std::uint8_t { kNone, kBool, kInt, kFloat, kOther, kTensor, kList };
  Kind kind = Kind::kNone;
  std::string name;            ///< The parameter's name; empty if the argument was given by its position.
  std::int64_t number = 0;     ///< kBool: 0 or 1; kInt: the value; kTensor: its place in AtenCall::tensors.
  std::vector<AtenArg> items;  ///< Elements, if the argument is a kList.
};

struct AtenTensor {
  EdgeSpec from;
  TensorSpec spec;
};

struct AtenCall {
  std::string target;  ///< "torch.ops.aten.mm.default", "aten.mm.default", "torch.relu", "aten::mm", "view".
  std::vector<AtenArg> args;
  std::vector<AtenTensor> tensors;  ///< What the arguments read, in their order; read twice, listed twice.
};

/// "aten::mm" of any of AtenCall's spellings: overloads, a trailing underscore of an in-place form and the
/// dimension of a convolution's name are left out; other namespaces stay ("prims::iota").
std::string aten_type(std::string_view target);
/// "mm" of "aten::mm".
std::string_view base_name(std::string_view type);
/// True for the forms that write into their first argument ("add_", "copy_").
bool is_in_place(std::string_view target);

/// The argument of that parameter, by its name or its position; null if the call has none or it is None.
const AtenArg* find_arg(const AtenCall& call, std::string_view type, std::string_view name);
/// The parameter that argument `position` of an op of this type stands for; empty if no table knows it.
std::string_view parameter_name(std::string_view type, std::size_t position);

/// Fills type, inputs, attrs_json, view, conv_groups and flops of `op`, whose outputs are there already.
/// Returns whether the op's work is known; if not, flops is 0. Pure; any thread.
bool describe_aten(AtenCall call, OpSpec& op);

/// The dtype of a name that torch prints ("f32", "b8", "i64"). What the graph does not know is taken as
/// another of its width; a c128 is none. Errors (kInvalid, without a place): an unknown name.
Result<DType> aten_dtype(std::string_view name);

}  // namespace emplace
