#pragma once
/// Internal header of the files onednn*.cc: turns a primitive into a Program. It includes oneDNN's types.

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "executor/cpu/onednn/onednn.h"

namespace emplace::cpu::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

dnnl::engine& engine();
/// Throws dnnl::error (unimplemented) for a dtype that oneDNN does not support.
dnnl::memory::data_type data_type(DType dtype);
/// Descriptor of the operand with its strides.
Desc described(const Operand& operand);
/// Row-major descriptor.
Desc packed_desc(const Dims& dims, DType dtype);
Desc row_major(const Desc& desc);  ///< Row-major, with the same dimensions and dtype.
/// Lets the primitive choose its preferred layout.
Desc any_layout(const Desc& desc);
/// Attributes for a scratchpad owned by the caller.
dnnl::primitive_attr user_scratchpad();

/// One argument of a primitive, in the given layout and in the primitive's layout.
struct Argument {
  int id = 0;  ///< DNNL_ARG_…
  Desc given, taken;
};

/// A program that reorders arguments where `given` and `taken` differ.
Program make_program(dnnl::primitive primitive, const Desc& scratchpad, const std::string& implementation,
                     const std::vector<Argument>& inputs, const std::vector<Argument>& outputs);

/// Calls `make`, which returns a Program; oneDNN exceptions become errors.
template <class Make>
Result<Program> guarded(Make make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    const bool memory = error.status == dnnl_out_of_memory;
    return Error{memory ? Errc::kOutOfMemory : Errc::kUnsupported, std::string{"oneDNN: "} + error.what()};
  }
}

}  // namespace emplace::cpu::onednn
