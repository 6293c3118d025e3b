#pragma once

#include "messages/run_control.h"
#include "runtime/actor.h"
#include "runtime/context.h"

namespace emplace::launcher {

/// Tells the launcher how the run goes: one JSON object per line on standard output, which the launcher
/// reads. Receives RunProgress. Thread: the owning loop.
class ViewActor final : public runtime::Actor {
 public:
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override;

 private:
  std::uint64_t updates_ = 0, committed_ = 0;  // As the recorder said last.
  double utilisation_ = 0;                     // Of the executors, as long as there were any.
};

}  // namespace emplace::launcher
