#include "graph/lowering.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace emplace {
namespace {

/// A buffer before sorting by owner.
struct Draft {
  std::int64_t bytes, held_bytes;
  OpId owner;
  TensorId tensor;
  std::uint32_t base;  // Number of the base buffer; its own for a whole tensor.
  bool resident;
};

}  // namespace

LoweredGraph::LoweredGraph(const OpGraph& graph) : graph_{&graph} {
  const std::size_t n = graph.num_ops();
  kernel_.resize(n);
  output_bytes_.assign(n, 0);
  unread_bytes_.assign(n, 0);
  resident_bytes_.assign(n, 0);

  // 1. Assign a buffer to each tensor. A view of several inputs waits for all of them but is a part of the
  // first.
  std::vector<Draft> drafts;
  std::vector<std::uint32_t> buffer_of(graph.num_tensors(), kNoIndex);
  // Tensor → additional buffers to wait for; rare.
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> waits_of;
  const auto whole = [&](OpId op, TensorId tensor, bool resident, std::int64_t held) {
    buffer_of[index(tensor)] = static_cast<std::uint32_t>(drafts.size());
    drafts.push_back(
        {graph.bytes(tensor), held, op, tensor, static_cast<std::uint32_t>(drafts.size()), resident});
  };
  for (const OpId op : graph.topological_order()) {
    const auto inputs = graph.inputs(op);
    const bool state = graph.is_state(op) && inputs.empty();
    kernel_[index(op)] = !state && (!graph.is_view(op) || inputs.empty());
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      const TensorId tensor = graph.output(op, k);
      if (state) {
        resident_bytes_[index(op)] += graph.bytes(tensor);
        whole(op, tensor, true, 0);
      } else if (kernel_[index(op)]) {
        const std::int64_t held = graph.phase(op) == Phase::kUpdate ? 0 : graph.bytes(tensor);
        output_bytes_[index(op)] += held;
        whole(op, tensor, false, held);
      } else {
        const std::uint32_t of = buffer_of[index(inputs[0])];
        if (graph.bytes(tensor) >= drafts[of].bytes) {
          buffer_of[index(tensor)] = of;
        } else {
          buffer_of[index(tensor)] = static_cast<std::uint32_t>(drafts.size());
          const Draft& from = drafts[of];
          drafts.push_back({graph.bytes(tensor), 0, from.owner, tensor, from.base, from.resident});
        }
        std::vector<std::uint32_t> waits;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const std::uint32_t buffer = buffer_of[index(inputs[i])];
          if (i > 0 && !drafts[buffer].resident && buffer != of) waits.push_back(buffer);
          const auto inherited = waits_of.find(static_cast<std::uint32_t>(index(inputs[i])));
          if (inherited != waits_of.end())
            waits.insert(waits.end(), inherited->second.begin(), inherited->second.end());
        }
        if (!waits.empty()) waits_of.emplace(static_cast<std::uint32_t>(index(tensor)), std::move(waits));
      }
    }
    if (kernel_[index(op)]) resident_bytes_[index(op)] = graph.param_bytes(op);
  }

  // 2. Renumber so that an op's buffers are consecutive.
  std::vector<std::uint32_t> order(drafts.size()), number(drafts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return drafts[a].owner < drafts[b].owner; });
  for (std::size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<std::uint32_t>(i);
  owned_begin_.assign(n + 1, 0);
  for (const std::uint32_t draft : order) {
    const Draft& d = drafts[draft];
    ++owned_begin_[index(d.owner) + 1];
    bytes_.push_back(d.bytes);
    held_bytes_.push_back(d.held_bytes);
    owner_.push_back(d.owner);
    tensor_.push_back(d.tensor);
    base_.push_back(BufferId{number[d.base]});
    resident_.push_back(d.resident);
  }
  std::partial_sum(owned_begin_.begin(), owned_begin_.end(), owned_begin_.begin());

  buffer_of_.reserve(buffer_of.size());
  for (const std::uint32_t draft : buffer_of) buffer_of_.push_back(BufferId{number[draft]});

  // 3. Collect reads; each kernel reads a buffer once.
  std::vector<std::uint32_t> seen(bytes_.size(), kNoIndex);
  read_begin_.reserve(n + 1);
  for (std::uint32_t i = 0; i < n; ++i) {
    const OpId op{i};
    read_begin_.push_back(static_cast<std::uint32_t>(reads_.size()));
    if (!kernel_[i]) continue;
    kernels_.push_back(op);
    const auto read = [&](std::uint32_t draft) {
      const std::uint32_t buffer = number[draft];
      if (seen[buffer] == i) return;
      seen[buffer] = i;
      reads_.push_back(BufferId{buffer});
    };
    for (const TensorId input : graph.inputs(op)) {
      read(buffer_of[index(input)]);
      const auto waits = waits_of.find(static_cast<std::uint32_t>(index(input)));
      if (waits == waits_of.end()) continue;
      for (const std::uint32_t draft : waits->second) read(draft);
    }
  }
  read_begin_.push_back(static_cast<std::uint32_t>(reads_.size()));
  reader_begin_.assign(bytes_.size() + 1, 0);
  for (const BufferId buffer : reads_) ++reader_begin_[index(buffer) + 1];
  std::partial_sum(reader_begin_.begin(), reader_begin_.end(), reader_begin_.begin());
  readers_.resize(reads_.size());
  std::vector<std::uint32_t> fill(reader_begin_.begin(), reader_begin_.end() - 1);
  for (const OpId op : kernels_) {
    for (const BufferId buffer : reads(op)) readers_[fill[index(buffer)]++] = op;
  }

  // 4. Find outputs that are never read, in whole or in part.
  std::vector<bool> is_read(bytes_.size(), false);
  for (const BufferId buffer : reads_) is_read[index(base_[index(buffer)])] = true;
  for (std::size_t b = 0; b < bytes_.size(); ++b) {
    if (!is_read[b]) unread_bytes_[index(owner_[b])] += held_bytes_[b];
  }
}

}  // namespace emplace
