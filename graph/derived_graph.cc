#include "graph/derived_graph.h"

#include <algorithm>
#include <limits>

namespace emplace {
namespace {

/// Ends the last of some rows, whose values are in one list.
template <class Values>
void end_row(std::vector<std::uint32_t>& rows, const Values& values) {
  rows.push_back(static_cast<std::uint32_t>(values.size()));
}

}  // namespace

DerivedGraphBuilder::DerivedGraphBuilder(const OpGraph& from) : from_{from} {
  graph_.name_ = from.name_;
  graph_.source_ = from.source_;
  graph_.meta_json_ = from.meta_json_;
  graph_.type_names_ = from.type_names_;
  graph_.type_classes_ = from.type_classes_;
  graph_.group_names_ = from.group_names_;
  graph_.attrs_ = from.attrs_;
  graph_.measured_classes_ = from.measured_classes_;
  graph_.input_begin_ = graph_.output_begin_ = graph_.dim_begin_ = {0};
}

OpId DerivedGraphBuilder::copy(OpId op, std::span<const TensorId> inputs, std::string_view name_end,
                               Phase phase, bool parameters) {
  const OpId added = next();
  name(op, name_end);
  source_.push_back(op);
  graph_.types_.push_back(from_.type(op));
  graph_.flags_.push_back(from_.flags_[index(op)]);
  graph_.phases_.push_back(phase);
  graph_.flops_.push_back(from_.flops(op));
  graph_.param_bytes_.push_back(parameters ? from_.param_bytes(op) : 0);
  graph_.conv_groups_.push_back(from_.conv_groups(op));
  graph_.attr_.push_back(from_.attr_[index(op)]);
  graph_.groups_.push_back(from_.group(op));
  graph_.colocate_.push_back(kNoOp);
  if (from_.has_allowed_devices(op)) {
    const auto devices = from_.allowed_devices(op);
    graph_.allowed_.emplace_back(added, std::vector<std::string>{devices.begin(), devices.end()});
  }
  add_inputs(inputs);
  for (std::size_t k = 0; k < from_.num_outputs(op); ++k) add_output(from_, from_.output(op, k));
  // What an op makes again is no result: the op itself has made that.
  for (const TensorId result : from_.results(op))
    if (name_end.empty())
      graph_.results_.push_back(
          TensorId{graph_.output_begin_.back() +
                   static_cast<std::uint32_t>(index(result) - index(from_.first_output(op)))});
  end_row(graph_.output_begin_, graph_.bytes_);
  return added;
}

OpId DerivedGraphBuilder::add(const Added& op, std::span<const TensorId> inputs) {
  const OpId added = next();
  name(op.beside, op.name_end);
  source_.push_back(kNoOp);
  graph_.types_.push_back(type_number(op.type));
  graph_.flags_.push_back(static_cast<std::uint8_t>((op.view ? OpGraph::kView : 0) |
                                                    (op.only_on != nullptr ? OpGraph::kAllowed : 0)));
  graph_.phases_.push_back(op.phase);
  graph_.flops_.push_back(0);
  graph_.param_bytes_.push_back(0);
  graph_.conv_groups_.push_back(1);
  graph_.attr_.push_back(0);  // "{}"
  graph_.groups_.push_back(from_.group(op.beside));
  graph_.colocate_.push_back(kNoOp);
  if (op.only_on != nullptr) graph_.allowed_.emplace_back(added, std::vector{*op.only_on});
  add_inputs(inputs);
  if (op.like != kNoTensor) {
    add_output(graph_, op.like);
  } else {
    graph_.bytes_.push_back(0);
    graph_.dtypes_.push_back(DType::kU8);
    graph_.producer_.push_back(added);
    graph_.dims_.push_back(0);
    end_row(graph_.dim_begin_, graph_.dims_);
  }
  end_row(graph_.output_begin_, graph_.bytes_);
  return added;
}

void DerivedGraphBuilder::name(OpId beside, std::string_view end) {
  graph_.names_ += from_.name(beside);
  graph_.names_ += end;
  graph_.name_begin_.push_back(graph_.names_.size());
}

void DerivedGraphBuilder::add_inputs(std::span<const TensorId> inputs) {
  graph_.inputs_.insert(graph_.inputs_.end(), inputs.begin(), inputs.end());
  end_row(graph_.input_begin_, graph_.inputs_);
}

void DerivedGraphBuilder::add_output(const OpGraph& of, TensorId like) {
  graph_.bytes_.push_back(of.bytes(like));
  graph_.dtypes_.push_back(of.dtype(like));
  graph_.producer_.push_back(OpId{static_cast<std::uint32_t>(graph_.types_.size() - 1)});
  const std::size_t size = of.shape(like).size();
  for (std::size_t k = 0; k < size; ++k)
    graph_.dims_.push_back(of.shape(like)[k]);  // It may be the same list.
  end_row(graph_.dim_begin_, graph_.dims_);
}

TypeId DerivedGraphBuilder::type_number(std::string_view type) {
  const auto at = std::ranges::find(graph_.type_names_, type);
  const auto number = static_cast<std::uint16_t>(at - graph_.type_names_.begin());
  if (at == graph_.type_names_.end()) {
    graph_.type_names_.emplace_back(type);
    graph_.type_classes_.push_back(class_of_type(type));
  }
  return TypeId{number};
}

OpGraph DerivedGraphBuilder::build() && {
  const std::size_t n = graph_.types_.size();
  // A kernel that was added takes no time on any device.
  const auto is_free_kernel = [&](std::size_t id) {
    return source_[id] == kNoOp && (graph_.flags_[id] & OpGraph::kView) == 0;
  };
  bool has_free_kernel = false;
  for (std::size_t id = 0; id < n; ++id) has_free_kernel = has_free_kernel || is_free_kernel(id);
  for (const char* kind : {"cpu", "gpu"})
    if (has_free_kernel &&
        std::ranges::find(graph_.measured_classes_, kind) == graph_.measured_classes_.end())
      graph_.measured_classes_.emplace_back(kind);
  const std::size_t known = from_.measured_classes_.size();
  graph_.measured_us_.reserve(graph_.measured_classes_.size() * n);
  for (std::size_t c = 0; c < graph_.measured_classes_.size(); ++c)
    for (std::size_t id = 0; id < n; ++id)
      graph_.measured_us_.push_back(is_free_kernel(id) ? 0
                                    : source_[id] != kNoOp && c < known
                                        ? from_.measured_us(source_[id], c)
                                        : std::numeric_limits<double>::quiet_NaN());
  graph_.list_consumers();
  graph_.order_.reserve(n);
  for (std::uint32_t id = 0; id < n; ++id) graph_.order_.push_back(OpId{id});
  return std::move(graph_);
}

}  // namespace emplace
