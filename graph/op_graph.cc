#include "graph/op_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "base/text/words.h"

namespace emplace {
namespace {

struct DTypeRow {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<DTypeRow, 11> kDTypes{{{"f32", 4},
                                            {"f64", 8},
                                            {"f16", 2},
                                            {"bf16", 2},
                                            {"i64", 8},
                                            {"i32", 4},
                                            {"i16", 2},
                                            {"i8", 1},
                                            {"u8", 1},
                                            {"bool", 1},
                                            {"f8", 1}}};
constexpr std::array<std::string_view, 3> kPhases{"forward", "backward", "update"};

// Limits stop far below 2^63, so that sums over a whole graph do not overflow either.
constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 50;

std::string at_op(const OpSpec& op, std::size_t id) {
  return fmt::format("op {} '{}'", id, printable(op.name, 80));
}

/// Bytes of a tensor. Errors: the reason without a place.
Result<std::int64_t> tensor_bytes(const TensorSpec& tensor) {
  std::int64_t bytes = element_bytes(tensor.dtype);
  for (const std::int64_t dim : tensor.shape) {
    if (dim < 0) return invalid("", fmt::format("an output has the negative dimension {}", dim));
    if (__builtin_mul_overflow(bytes, dim, &bytes) || bytes > kMaxTensorBytes) {
      return invalid("", "an output is larger than 1 PiB", "check its shape");
    }
  }
  return bytes;
}

/// Interns words, numbered in order of first use.
class Words {
 public:
  explicit Words(std::vector<std::string>& list) : list_{list} {
    for (std::size_t i = 0; i < list.size(); ++i) number_.emplace(list[i], static_cast<std::uint32_t>(i));
  }
  std::uint32_t operator()(const std::string& word) {
    const auto [it, fresh] = number_.try_emplace(word, static_cast<std::uint32_t>(list_.size()));
    if (fresh) list_.push_back(word);
    return it->second;
  }

 private:
  std::vector<std::string>& list_;
  std::unordered_map<std::string, std::uint32_t> number_;
};

/// Checks one op by itself, and that the ops it refers to exist.
Result<Unit> check_op(const std::vector<OpSpec>& ops, std::size_t id) {
  const OpSpec& op = ops[id];
  const std::string where = at_op(op, id);
  if (op.name.empty()) return invalid(where, "has no name");
  if (op.type.empty()) return invalid(where, "has no type");
  // JSON requires UTF-8; other names would not survive a round trip.
  bool utf8 = is_utf8(op.name) && is_utf8(op.type) && is_utf8(op.group);
  for (const auto& [device_class, us] : op.measured_us) utf8 = utf8 && is_utf8(device_class);
  for (const std::string& device : op.allowed_devices) utf8 = utf8 && is_utf8(device);
  if (!utf8) return invalid(where, "name, type, group or a device name is not UTF-8");
  if (op.flops < 0) return invalid(where, "flops must not be negative");
  if (op.param_bytes < 0 || op.param_bytes > kMaxTensorBytes)
    return invalid(where, "param_bytes is out of range");
  if (op.flops > (std::int64_t{1} << 60)) return invalid(where, "flops is out of range");
  if (op.conv_groups < 1) return invalid(where, "attrs.groups must be at least 1");
  for (const EdgeSpec& edge : op.inputs) {
    if (edge.op >= ops.size()) {
      return invalid(where, fmt::format("reads from op {}, which does not exist", edge.op),
                     fmt::format("ids run from 0 to {}", ops.size() - 1));
    }
    if (edge.output >= ops[edge.op].outputs.size()) {
      return invalid(where, fmt::format("reads output {} of {}, which has {}", edge.output,
                                        at_op(ops[edge.op], edge.op), ops[edge.op].outputs.size()));
    }
  }
  for (const auto& [device_class, us] : op.measured_us) {
    if (!std::isfinite(us) || us < 0 || us > 1e12) {
      return invalid(where,
                     "measured_us for '" + printable(device_class, 40) + "' is negative or not a number");
    }
  }
  if (op.has_allowed_devices && op.allowed_devices.empty()) {
    return invalid(where, "the list of devices is empty", "name at least one device or leave `devices` out");
  }
  for (std::size_t r = 0; r < op.results.size(); ++r) {
    if (op.results[r] >= op.outputs.size())
      return invalid(where, fmt::format("returns output {}, but has {}", op.results[r], op.outputs.size()));
    if (r > 0 && op.results[r] <= op.results[r - 1])
      return invalid(where, "its results are not ascending",
                     "list each output that is returned once, in order");
  }
  if (op.colocate != kNoOp && index(op.colocate) >= ops.size()) {
    return invalid(where, fmt::format("colocate names op {}, which does not exist", index(op.colocate)));
  }
  return Unit{};
}

/// Each op may point at one other op by `colocate`; the chain must end.
Result<Unit> check_colocation(const std::vector<OpSpec>& ops) {
  std::vector<std::uint32_t> seen(ops.size(), 0);  // Number of the walk that passed here; 0: no walk.
  for (std::size_t start = 0; start < ops.size(); ++start) {
    const auto walk = static_cast<std::uint32_t>(start + 1);
    std::size_t at = start;
    while (ops[at].colocate != kNoOp && seen[at] == 0) {
      seen[at] = walk;
      at = index(ops[at].colocate);
    }
    if (ops[at].colocate != kNoOp && seen[at] == walk)
      return invalid(at_op(ops[at], at), "colocate forms a cycle");
  }
  return Unit{};
}

/// Names up to six ops of one cycle among the ops that Kahn's algorithm could not order.
Error name_cycle(const std::vector<OpSpec>& ops, const std::vector<std::uint32_t>& missing) {
  std::size_t at = 0;
  while (missing[at] == 0) ++at;
  std::vector<bool> visited(ops.size(), false);
  std::vector<std::size_t> path;
  while (!visited[at]) {
    visited[at] = true;
    path.push_back(at);
    for (const EdgeSpec& edge : ops[at].inputs) {
      if (missing[edge.op] != 0) {
        at = edge.op;
        break;
      }
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::string names;
  for (std::size_t i = 0; i < path.size() && i < 6; ++i) {
    names += (i == 0 ? "'" : " <- '") + printable(ops[path[i]].name, 60) + "'";
  }
  if (path.size() > 6) names += " <- …";
  return invalid("graph", fmt::format("has a cycle of {} ops: {}", path.size(), names),
                 "a step must be acyclic: unroll loops first");
}

}  // namespace

std::int64_t element_bytes(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }
std::string_view dtype_name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }
Result<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return invalid("dtype '" + printable(name, 40) + "'", "is unknown",
                 "use f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool f8");
}

std::string_view phase_name(Phase phase) { return kPhases[static_cast<std::size_t>(phase)]; }
Result<Phase> parse_phase(std::string_view name) {
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    if (kPhases[i] == name) return static_cast<Phase>(i);
  }
  return invalid("phase '" + printable(name, 40) + "'", "is unknown", "use forward, backward or update");
}

/// A counting sort in id order, so that each list is sorted.
void OpGraph::list_consumers() {
  std::vector<std::uint32_t> last_reader(bytes_.size());
  const auto for_each_reader = [&](auto&& visit) {  // Calls visit(tensor, id), once per tensor and reader.
    std::fill(last_reader.begin(), last_reader.end(), 0xffffffffu);
    for (std::uint32_t id = 0; id + 1 < input_begin_.size(); ++id) {
      for (std::uint32_t e = input_begin_[id]; e < input_begin_[id + 1]; ++e) {
        const std::size_t tensor = index(inputs_[e]);
        if (last_reader[tensor] == id) continue;
        last_reader[tensor] = id;
        visit(tensor, id);
      }
    }
  };
  std::vector<std::uint32_t> next(bytes_.size() + 1, 0);
  for_each_reader([&](std::size_t tensor, std::uint32_t) { ++next[tensor + 1]; });
  for (std::size_t t = 0; t + 1 < next.size(); ++t) next[t + 1] += next[t];
  consumer_begin_ = next;
  consumers_.resize(next.back());
  for_each_reader([&](std::size_t tensor, std::uint32_t id) { consumers_[next[tensor]++] = OpId{id}; });
}

std::span<const std::string> OpGraph::allowed_devices(OpId op) const {
  const auto it = std::lower_bound(allowed_.begin(), allowed_.end(), op,
                                   [](const auto& entry, OpId wanted) { return entry.first < wanted; });
  if (it == allowed_.end() || it->first != op) return {};
  return it->second;
}

std::span<const TensorId> OpGraph::results(OpId op) const {
  const auto begin = std::ranges::lower_bound(results_, TensorId{output_begin_[index(op)]});
  const auto end = std::ranges::lower_bound(begin, results_.end(), TensorId{output_begin_[index(op) + 1]});
  return {begin, end};
}

OpGraphBuilder& OpGraphBuilder::set_name(std::string name) { return name_ = std::move(name), *this; }
OpGraphBuilder& OpGraphBuilder::set_source(std::string source) { return source_ = std::move(source), *this; }
OpGraphBuilder& OpGraphBuilder::set_meta_json(std::string meta) {
  return meta_json_ = std::move(meta), *this;
}

OpId OpGraphBuilder::add(OpSpec op) {
  ops_.push_back(std::move(op));
  return OpId{static_cast<std::uint32_t>(ops_.size() - 1)};
}

Result<OpGraph> OpGraphBuilder::build() && {
  if (ops_.empty()) return invalid("graph", "has no ops");
  if (ops_.size() > 50'000'000) return invalid("graph", "has more than 50 million ops");
  OpGraph graph;
  graph.name_ = std::move(name_);
  graph.source_ = std::move(source_);
  graph.meta_json_ = std::move(meta_json_);

  // Stage 1: check each op, its name, and colocation.
  EMPLACE_TRY(check_ops());
  // Stage 2: tensors and their sizes.
  EMPLACE_TRY(add_tensors(graph));
  // Stage 3: edges.
  add_inputs(graph);
  // Stage 4: the distinct readers of each tensor.
  graph.list_consumers();
  // Stage 5: a topological order.
  EMPLACE_TRY(add_order(graph));
  // Stage 6: the remaining fields, op by op.
  EMPLACE_TRY(add_fields(graph));
  // Stage 7: names. They stay in ops_ until here, because errors name ops.
  graph.name_begin_.reserve(ops_.size() + 1);
  for (const OpSpec& op : ops_) {
    graph.names_ += op.name;
    graph.name_begin_.push_back(graph.names_.size());
  }
  return graph;
}

Result<Unit> OpGraphBuilder::check_ops() const {
  std::unordered_map<std::string_view, std::size_t> by_name;
  by_name.reserve(ops_.size());
  for (std::size_t id = 0; id < ops_.size(); ++id) {
    EMPLACE_TRY(check_op(ops_, id));
    const auto [it, fresh] = by_name.try_emplace(ops_[id].name, id);
    if (!fresh) {
      return invalid(at_op(ops_[id], id), fmt::format("has the same name as op {}", it->second),
                     "make names unique");
    }
  }
  return check_colocation(ops_);
}

Result<Unit> OpGraphBuilder::add_tensors(OpGraph& graph) const {
  graph.output_begin_.reserve(ops_.size() + 1);
  graph.dim_begin_ = {0};
  std::int64_t total_bytes = 0;
  for (std::size_t id = 0; id < ops_.size(); ++id) {
    graph.output_begin_.push_back(static_cast<std::uint32_t>(graph.bytes_.size()));
    for (const TensorSpec& tensor : ops_[id].outputs) {
      const auto bytes = tensor_bytes(tensor);
      if (!bytes) return invalid(at_op(ops_[id], id), bytes.error().context);
      if (__builtin_add_overflow(total_bytes, *bytes, &total_bytes) ||
          total_bytes > (std::int64_t{1} << 60)) {
        return invalid(at_op(ops_[id], id), "the graph's tensors exceed 2^60 bytes in total");
      }
      graph.bytes_.push_back(*bytes);
      graph.dtypes_.push_back(tensor.dtype);
      graph.producer_.push_back(OpId{static_cast<std::uint32_t>(id)});
      graph.dims_.insert(graph.dims_.end(), tensor.shape.begin(), tensor.shape.end());
      graph.dim_begin_.push_back(static_cast<std::uint32_t>(graph.dims_.size()));
    }
  }
  graph.output_begin_.push_back(static_cast<std::uint32_t>(graph.bytes_.size()));
  return Unit{};
}

void OpGraphBuilder::add_inputs(OpGraph& graph) const {
  graph.input_begin_.reserve(ops_.size() + 1);
  for (const OpSpec& op : ops_) {
    graph.input_begin_.push_back(static_cast<std::uint32_t>(graph.inputs_.size()));
    for (const EdgeSpec& edge : op.inputs) {
      graph.inputs_.push_back(TensorId{graph.output_begin_[edge.op] + edge.output});
    }
  }
  graph.input_begin_.push_back(static_cast<std::uint32_t>(graph.inputs_.size()));
}

/// The ids if they are an order, else Kahn's algorithm with the lowest ready id first.
Result<Unit> OpGraphBuilder::add_order(OpGraph& graph) const {
  const std::size_t n = ops_.size();
  for (std::size_t id = 0; id < n && graph.ids_are_topological_; ++id) {
    for (const EdgeSpec& edge : ops_[id].inputs) graph.ids_are_topological_ &= edge.op < id;
  }
  graph.order_.reserve(n);
  if (graph.ids_are_topological_) {
    for (std::size_t id = 0; id < n; ++id) graph.order_.push_back(OpId{static_cast<std::uint32_t>(id)});
    return Unit{};
  }
  std::vector<std::uint32_t> missing(n, 0);
  for (const OpId reader : graph.consumers_) ++missing[index(reader)];
  std::vector<std::uint32_t> ready;
  for (std::size_t id = n; id-- > 0;) {
    if (missing[id] == 0) ready.push_back(static_cast<std::uint32_t>(id));
  }
  std::make_heap(ready.begin(), ready.end(), std::greater<>{});
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::greater<>{});
    const std::uint32_t id = ready.back();
    ready.pop_back();
    graph.order_.push_back(OpId{id});
    for (std::uint32_t t = graph.output_begin_[id]; t < graph.output_begin_[id + 1]; ++t) {
      for (const OpId reader : graph.consumers(TensorId{t})) {
        if (--missing[index(reader)] != 0) continue;
        ready.push_back(static_cast<std::uint32_t>(index(reader)));
        std::push_heap(ready.begin(), ready.end(), std::greater<>{});
      }
    }
  }
  if (graph.order_.size() != n) return name_cycle(ops_, missing);
  return Unit{};
}

Result<Unit> OpGraphBuilder::add_fields(OpGraph& graph) {
  const std::size_t n = ops_.size();
  graph.group_names_ = {""};
  graph.attrs_ = {"{}"};
  Words types{graph.type_names_}, groups{graph.group_names_}, attrs{graph.attrs_};
  Words classes{graph.measured_classes_};
  for (const OpSpec& op : ops_) {
    for (const auto& measured : op.measured_us) classes(measured.first);
  }
  graph.measured_us_.assign(graph.measured_classes_.size() * n, std::numeric_limits<double>::quiet_NaN());
  std::int64_t total_flops = 0;
  for (std::size_t id = 0; id < n; ++id) {
    OpSpec& op = ops_[id];
    if (__builtin_add_overflow(total_flops, op.flops, &total_flops)) {
      return invalid(at_op(op, id), "the graph's flops exceed 2^63 in total");
    }
    const std::uint32_t type = types(op.type);
    if (type > 0xffff) return invalid(at_op(op, id), "the graph has more than 65,536 op types");
    if (type == graph.type_classes_.size()) graph.type_classes_.push_back(class_of_type(op.type));
    const bool state = graph.type_classes_[type] == OpClass::kState;
    graph.types_.push_back(TypeId{static_cast<std::uint16_t>(type)});
    graph.flags_.push_back(static_cast<std::uint8_t>((state ? OpGraph::kState : 0) |
                                                     (op.view ? OpGraph::kView : 0) |
                                                     (op.has_allowed_devices ? OpGraph::kAllowed : 0)));
    graph.phases_.push_back(op.phase);
    graph.flops_.push_back(op.flops);
    graph.param_bytes_.push_back(op.param_bytes);
    graph.conv_groups_.push_back(op.conv_groups);
    graph.attr_.push_back(attrs(op.attrs_json));
    graph.groups_.push_back(groups(op.group));
    graph.colocate_.push_back(op.colocate);
    for (const auto& [device_class, us] : op.measured_us)
      graph.measured_us_[classes(device_class) * n + id] = us;
    if (op.has_allowed_devices) {
      graph.allowed_.emplace_back(OpId{static_cast<std::uint32_t>(id)}, std::move(op.allowed_devices));
    }
    for (const std::uint32_t output : op.results)
      graph.results_.push_back(TensorId{graph.output_begin_[id] + output});
  }
  return Unit{};
}

std::string quoted_op(const OpGraph& graph, OpId op) { return "op '" + printable(graph.name(op), 80) + "'"; }

}  // namespace emplace
