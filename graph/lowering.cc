#include "graph/lowering.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "graph/memory_plan.h"

namespace emplace {

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
  // Stage 5: count the outputs that no kernel reads, neither in whole nor in part.
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

void LoweredGraph::count_unread() {
  std::vector<bool> is_read(bytes_.size(), false);
  for (const BufferId buffer : reads_) is_read[index(base_[index(buffer)])] = true;
  for (std::size_t b = 0; b < bytes_.size(); ++b) {
    if (!is_read[b]) unread_bytes_[index(owner_[b])] += freed_bytes(BufferId{static_cast<std::uint32_t>(b)});
  }
}

}  // namespace emplace
