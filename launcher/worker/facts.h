#pragma once
/// Conversions between the messages of executor processes and the types of placement/ and executor/.

#include "base/result.h"
#include "executor/real_executor.h"
#include "messages/executor_process.h"
#include "placement/machine/device.h"
#include "placement/schedule.h"

namespace emplace::launcher {

/// Returns a message with the devices, links and options; the caller adds the graph.
messages::PrepareExecutor prepare_facts(const DeviceSet& devices, const RealOptions& options);
/// Errors (kInvalid): not a valid device set.
Result<DeviceSet> devices_of(const messages::PrepareExecutor& prepare);
RealOptions options_of(const messages::PrepareExecutor& prepare);

messages::ScheduleFacts facts_of(const Schedule& schedule);
/// Errors (kInvalid): columns of different lengths, or an op, tensor or device out of range.
Result<Schedule> schedule_of(const messages::ScheduleFacts& facts, const OpGraph& graph, std::size_t devices);
messages::VerificationFacts facts_of(const Verification& verification);
Verification verification_of(const messages::VerificationFacts& facts);
messages::ProfileFacts facts_of(const ExecutorProfile& profile);
/// Errors (kInvalid): those of schedule_of().
Result<ExecutorProfile> profile_of(const messages::ProfileFacts& facts, const OpGraph& graph,
                                   std::size_t devices);

}  // namespace emplace::launcher
