#pragma once
/// Trivial and human placement methods, which learned placements are compared with.

#include <string>
#include <string_view>

#include "solver/method.h"

namespace emplace {

/// `single-cpu`, `single-gpu`: everything on one device, the best of that kind.
class SingleDevice final : public Method {
 public:
  explicit SingleDevice(std::string_view kind) : kind_{kind}, name_{"single-" + kind_} {}
  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return "everything on the best single device of this kind"; }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;

 private:
  const std::string kind_, name_;
};

/// `random`: best of 100 random placements, half of them without the CPU; each group gets a device with room
/// for its state.
class RandomGroups final : public Method {
 public:
  std::string_view name() const override { return "random"; }
  std::string_view summary() const override {
    return "best of 100 random placements, each group on a device with room for its state";
  }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// `round-robin`: groups assigned to devices in turn, over the GPUs and over all devices; the better one.
class RoundRobin final : public Method {
 public:
  std::string_view name() const override { return "round-robin"; }
  std::string_view summary() const override { return "groups assigned to devices in turn"; }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// `contiguous`: issue order or scope order cut into one piece per GPU (or per device), by time or by time
/// and bytes, in proportion to speed or memory, at several offsets; the best one.
class Contiguous final : public Method {
 public:
  std::string_view name() const override { return "contiguous"; }
  std::string_view summary() const override { return "topological order cut by cost, one piece per device"; }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// `expert`: the hand-made placements of the papers, by layer scope; the best measured of several variants.
/// Recurrent nets: LSTM layer i on GPU i mod k, or neighbouring layers together; attention and softmax with
/// the last layer, embeddings with their readers. Others (cells, blocks of a residual net or a transformer):
/// all on one GPU, as is usual; equal blocks by number, by cost or by bytes; and the branches of an Inception
/// module or a NASNet cell spread over the GPUs.
///                        Papers: ColocRL 2017, section 4.2  [COL-EXPERT]; Hierarchical 2018, section 3
class Expert final : public Method {
 public:
  std::string_view name() const override { return "expert"; }
  std::string_view summary() const override { return "by layer, as the experts of the papers did"; }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

}  // namespace emplace
