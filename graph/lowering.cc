#include "graph/lowering.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "graph/memory_plan.h"

namespace emplace {
namespace {

/// Op types whose result replaces their first input when an optimizer uses them.
bool accumulates(std::string_view type) {
  static const std::unordered_set<std::string_view> kinds{"aten::add",     "aten::sub",     "aten::mul",
                                                          "aten::addcmul", "aten::addcdiv", "aten::lerp"};
  return kinds.contains(type);
}

/// Whether an op makes its output in memory of its own, so that what follows may write over it.
bool has_own_memory(const OpGraph& graph, OpId op) {
  static const std::unordered_set<std::string_view> of_updates{
      "aten::div", "aten::sqrt", "aten::rsqrt",   "aten::neg",
      "aten::abs", "aten::pow",  "aten::maximum", "aten::reciprocal"};
  static const std::unordered_set<std::string_view> of_gradients{"aten::mm",
                                                                 "aten::addmm",
                                                                 "aten::bmm",
                                                                 "aten::baddbmm",
                                                                 "aten::add",
                                                                 "aten::mul",
                                                                 "aten::sum",
                                                                 "aten::cat",
                                                                 "aten::convolution_backward",
                                                                 "aten::embedding_dense_backward",
                                                                 "aten::native_layer_norm_backward",
                                                                 "aten::native_batch_norm_backward",
                                                                 "aten::slice_backward",
                                                                 "aten::select_backward"};
  const std::string_view type = graph.type_name(op);
  return of_gradients.contains(type) ||
         (graph.phase(op) == Phase::kUpdate && (accumulates(type) || of_updates.contains(type)));
}

/// Whether `em.trace` made the graph's updates op by op, so that results that are written over nothing count.
bool counts_temporaries(const OpGraph& graph) {
  if (graph.meta_json().find("\"temporaries\"") == std::string::npos) return false;
  const auto meta = nlohmann::json::parse(graph.meta_json(), nullptr, /*allow_exceptions=*/false);
  return meta.is_object() && meta.contains("temporaries") && meta["temporaries"] == true;
}

/// Whether the first input has the type and the shape of the only output.
bool is_like_first_input(const OpGraph& graph, OpId op) {
  if (graph.inputs(op).empty() || graph.num_outputs(op) != 1) return false;
  const TensorId first = graph.inputs(op)[0], out = graph.first_output(op);
  return graph.dtype(first) == graph.dtype(out) && std::ranges::equal(graph.shape(first), graph.shape(out));
}

}  // namespace

/// Buffers in topological order of their ops, before they are numbered by owner.
struct LoweredGraph::Drafts {
  struct Draft {
    std::int64_t bytes, held_bytes;
    OpId owner;
    TensorId tensor;
    std::uint32_t base;  // The base buffer's draft; its own for a whole tensor.
    bool resident;
    bool result = false;  // The step returns it, or a part of it.
  };
  /// Adds the buffer of a whole tensor.
  void add_whole(OpId op, TensorId tensor, std::int64_t bytes, std::int64_t held_bytes, bool resident) {
    const auto draft = static_cast<std::uint32_t>(buffers.size());
    of_tensor[index(tensor)] = draft;
    buffers.push_back({bytes, held_bytes, op, tensor, draft, resident});
  }

  std::vector<Draft> buffers;
  std::vector<std::uint32_t> of_tensor;  // [tensors] The draft that a tensor is, or is read from.
  /// Tensor → drafts to wait for besides of_tensor; rare.
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> waits_of;
  std::vector<std::uint32_t> number;  // [buffers] The final number of a draft.
};

LoweredGraph::LoweredGraph(const OpGraph& graph) : graph_{&graph} {
  // Stage 1: decide which ops are kernels, and the buffer of each tensor.
  Drafts drafts = draft_buffers();
  // Stage 2: number buffers so that those of an op are consecutive.
  number_buffers(drafts);
  // Stage 3: collect the buffers that each kernel reads, once each.
  collect_reads(drafts);
  // Stage 4: collect the kernels that read each buffer.
  collect_readers();
  // Stage 5: count the results of updates that are written over nothing.
  if (counts_temporaries(graph)) count_temporaries();
  // Stage 6: count the outputs that no kernel reads, neither in whole nor in part.
  count_unread();
}

LoweredGraph::Drafts LoweredGraph::draft_buffers() {
  const OpGraph& graph = *graph_;
  const std::size_t n = graph.num_ops();
  kernel_.resize(n);
  output_bytes_.assign(n, 0);
  unread_bytes_.assign(n, 0);
  resident_bytes_.assign(n, 0);
  Drafts drafts;
  drafts.of_tensor.assign(graph.num_tensors(), kNoIndex);
  for (const OpId op : graph.topological_order()) {
    const bool reads = !graph.inputs(op).empty();
    const bool state = graph.is_state(op) && !reads;
    const bool kernel = !state && (!graph.is_view(op) || !reads);
    kernel_[index(op)] = kernel;
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId tensor = graph.output(op, k);
      const std::int64_t bytes = graph.bytes(tensor);
      if (state) {
        resident_bytes_[index(op)] += bytes;
        drafts.add_whole(op, tensor, bytes, 0, true);
      } else if (kernel) {
        const std::int64_t held = graph.phase(op) == Phase::kUpdate ? 0 : bytes;
        if (graph.type_name(op) == kFetchType) {
          unread_bytes_[index(op)] -= held;
        } else {
          output_bytes_[index(op)] += held;
        }
        drafts.add_whole(op, tensor, bytes, held, false);
      } else {
        draft_view(op, tensor, drafts);
      }
    }
    for (const TensorId result : graph.results(op))
      drafts.buffers[drafts.buffers[drafts.of_tensor[index(result)]].base].result = true;
    if (kernel) resident_bytes_[index(op)] = graph.param_bytes(op);
  }
  return drafts;
}

/// A view of several inputs waits for all of them but is a part of the first.
void LoweredGraph::draft_view(OpId op, TensorId tensor, Drafts& drafts) const {
  const OpGraph& graph = *graph_;
  const auto inputs = graph.inputs(op);
  const std::uint32_t of = drafts.of_tensor[index(inputs[0])];
  const Drafts::Draft from = drafts.buffers[of];
  if (graph.bytes(tensor) >= from.bytes) {
    drafts.of_tensor[index(tensor)] = of;
  } else if (graph.bytes(tensor) == 0) {
    drafts.add_whole(from.owner, tensor, 0, 0, from.resident);
  } else {
    drafts.of_tensor[index(tensor)] = static_cast<std::uint32_t>(drafts.buffers.size());
    drafts.buffers.push_back({graph.bytes(tensor), 0, from.owner, tensor, from.base, from.resident});
  }
  std::vector<std::uint32_t> waits;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::uint32_t buffer = drafts.of_tensor[index(inputs[i])];
    if (i > 0 && !drafts.buffers[buffer].resident && buffer != of) waits.push_back(buffer);
    const auto inherited = drafts.waits_of.find(static_cast<std::uint32_t>(index(inputs[i])));
    if (inherited != drafts.waits_of.end())
      waits.insert(waits.end(), inherited->second.begin(), inherited->second.end());
  }
  if (!waits.empty()) drafts.waits_of.emplace(static_cast<std::uint32_t>(index(tensor)), std::move(waits));
}

void LoweredGraph::number_buffers(Drafts& drafts) {
  const std::vector<Drafts::Draft>& buffers = drafts.buffers;
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return buffers[a].owner < buffers[b].owner; });
  drafts.number.resize(buffers.size());
  for (std::size_t i = 0; i < order.size(); ++i) drafts.number[order[i]] = static_cast<std::uint32_t>(i);
  owned_begin_.assign(num_ops() + 1, 0);
  for (const std::uint32_t draft : order) {
    const Drafts::Draft& d = buffers[draft];
    ++owned_begin_[index(d.owner) + 1];
    bytes_.push_back(d.bytes);
    held_bytes_.push_back(d.held_bytes);
    owner_.push_back(d.owner);
    tensor_.push_back(d.tensor);
    base_.push_back(BufferId{drafts.number[d.base]});
    resident_.push_back(d.resident);
    result_.push_back(d.result);
  }
  std::partial_sum(owned_begin_.begin(), owned_begin_.end(), owned_begin_.begin());
  buffer_of_.reserve(drafts.of_tensor.size());
  for (const std::uint32_t draft : drafts.of_tensor) buffer_of_.push_back(BufferId{drafts.number[draft]});
}

void LoweredGraph::collect_reads(const Drafts& drafts) {
  std::vector<std::uint32_t> seen(bytes_.size(), kNoIndex);  // The last kernel that reads the buffer.
  read_begin_.reserve(num_ops() + 1);
  for (std::uint32_t i = 0; i < num_ops(); ++i) {
    const OpId op{i};
    read_begin_.push_back(static_cast<std::uint32_t>(reads_.size()));
    if (!kernel_[i]) continue;
    kernels_.push_back(op);
    const auto read = [&](std::uint32_t draft) {
      const std::uint32_t buffer = drafts.number[draft];
      if (seen[buffer] == i) return;
      seen[buffer] = i;
      reads_.push_back(BufferId{buffer});
    };
    for (const TensorId input : graph_->inputs(op)) {
      read(drafts.of_tensor[index(input)]);
      const auto waits = drafts.waits_of.find(static_cast<std::uint32_t>(index(input)));
      if (waits == drafts.waits_of.end()) continue;
      for (const std::uint32_t draft : waits->second) read(draft);
    }
  }
  read_begin_.push_back(static_cast<std::uint32_t>(reads_.size()));
}

void LoweredGraph::collect_readers() {
  reader_begin_.assign(bytes_.size() + 1, 0);
  for (const BufferId buffer : reads_) ++reader_begin_[index(buffer) + 1];
  std::partial_sum(reader_begin_.begin(), reader_begin_.end(), reader_begin_.begin());
  readers_.resize(reads_.size());
  std::vector<std::uint32_t> fill(reader_begin_.begin(), reader_begin_.end() - 1);
  for (const OpId op : kernels_) {
    for (const BufferId buffer : reads(op)) readers_[fill[index(buffer)]++] = op;
  }
}

void LoweredGraph::count_temporaries() {
  const InPlaceWrites in_place{*this};
  for (const OpId op : kernels_) {
    if (graph_->phase(op) != Phase::kUpdate) continue;
    if (in_place.state_written(op) != kNoOp || in_place.replaces_temporary(*graph_, op)) continue;
    if (graph_->type_name(op) == kReduceType) continue;  // It writes over gradients.
    for (std::uint32_t b = first_owned(op); b < end_owned(op); ++b) {
      if (base_[b] != BufferId{b}) continue;
      held_bytes_[b] = bytes_[b];
      output_bytes_[index(op)] += bytes_[b];
    }
  }
}

void LoweredGraph::count_unread() {
  std::vector<bool> is_read(bytes_.size(), false);
  for (const BufferId buffer : reads_) is_read[index(base_[index(buffer)])] = true;
  for (std::size_t b = 0; b < bytes_.size(); ++b) {
    if (!is_read[b]) unread_bytes_[index(owner_[b])] += freed_bytes(BufferId{static_cast<std::uint32_t>(b)});
  }
}

InPlaceWrites::InPlaceWrites(const LoweredGraph& lowered) {
  const OpGraph& graph = lowered.graph();
  state_.assign(graph.num_ops(), kNoOp);
  std::vector<std::uint32_t> position(graph.num_ops());
  std::uint32_t next = 0;
  for (const OpId op : graph.topological_order()) position[index(op)] = next++;
  for (const OpId op : graph.topological_order()) {
    if (!lowered.takes_time(op) || graph.phase(op) != Phase::kUpdate) continue;
    if (!accumulates(graph.type_name(op)) || !is_like_first_input(graph, op)) continue;
    const TensorId first = graph.inputs(op)[0];
    const OpId producer = graph.producer(first);  // State itself, or an earlier update of it; never a view.
    const OpId state =
        graph.is_state(producer) && !lowered.takes_time(producer) ? producer : state_[index(producer)];
    if (state == kNoOp) continue;
    // All other readers of the overwritten buffer must come before the op.
    const BufferId old = lowered.buffer(first);
    bool last = true;
    for (std::uint32_t b = lowered.first_owned(producer); b < lowered.end_owned(producer); ++b) {
      if (lowered.base(BufferId{b}) != old) continue;
      for (const OpId reader : lowered.readers(BufferId{b}))
        last &= reader == op || position[index(reader)] < position[index(op)];
    }
    if (last) state_[index(op)] = state;
  }
}

bool InPlaceWrites::replaces_temporary(const OpGraph& graph, OpId op) const {
  const std::string_view type = graph.type_name(op);
  if (type == "aten::_local_scalar_dense") return true;
  if ((!accumulates(type) && type != "aten::div") || !is_like_first_input(graph, op)) return false;
  const TensorId first = graph.inputs(op)[0];
  const OpId maker = graph.producer(first);
  return graph.consumers(first).size() == 1 && has_own_memory(graph, maker) && state_written(maker) == kNoOp;
}

}  // namespace emplace
