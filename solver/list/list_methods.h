#pragma once
/// List schedulers: they place op by op along their own schedule, with the memory model of
/// solver/list/list_schedule.h, and return the best measured of several attempts.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "solver/list/list_schedule.h"
#include "solver/method.h"

namespace emplace {

/// `heft`: ops by decreasing upward rank (mean time and mean transfer to the end), each on the device where
/// it ends first, also in a gap between two scheduled ops that is long enough.
///                  Paper: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, section 4.1  [HEFT]
class Heft final : public Method {
 public:
  std::string_view name() const override { return "heft"; }
  std::string_view summary() const override { return "by upward rank, each op where it ends first (HEFT)"; }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// `m-topo`: topological order, filled device by device: the next device is started when the live bytes of
/// the current one reach a bound. The bounds tried range from an even share to the whole memory.
///                  Paper: Jeon et al., Baechi, SoCC 2020, section 3.1  [BAECHI-TOPO]
class MTopo final : public Method {
 public:
  std::string_view name() const override { return "m-topo"; }
  std::string_view summary() const override {
    return "topological order, device by device up to a memory bound";
  }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// `m-etf`: repeatedly the ready op with the earliest start, on the device where it starts earliest; devices
/// without enough memory are excluded. On unequal devices the time that an op loses to its fastest device
/// counts as waiting.
///                  Paper: Baechi, SoCC 2020, section 3.2; Hwang et al., SIAM J. Comput. 18, 1989
///                  [BAECHI-ETF]
class MEtf final : public Method {
 public:
  std::string_view name() const override { return "m-etf"; }
  std::string_view summary() const override {
    return "earliest start first, on devices with enough memory (m-ETF)";
  }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// `m-sct`: m-etf in which a device waits for the favourite child of the op it ran last, for as long as the
/// child could not start elsewhere either.
///                  Paper: Baechi, SoCC 2020, section 3.3; Hanen, Munier, 1995  [BAECHI-SCT]
class MSct final : public Method {
 public:
  std::string_view name() const override { return "m-sct"; }
  std::string_view summary() const override {
    return "m-etf with favourite children from a linear program (m-SCT)";
  }
  Result<Answer> find(const Problem& problem, Executor& executor) const override;
};

/// Schedules by earliest start. `favourite` [ops]: the child for which an op's device waits, or kNoOp; empty:
/// none.
void list_by_earliest_start(PartialSchedule& schedule, std::span<const OpId> favourite);

}  // namespace emplace
