#pragma once
/// What executor processes are told and answer, as messages have it and as everybody else does.

#include "base/result.h"
#include "executor/real_executor.h"
#include "messages/executor_process.h"
#include "placement/machine/device.h"
#include "placement/schedule.h"

namespace emplace::launcher {

/// The devices, links and options of `prepare`; the graph is the caller's to add.
messages::PrepareExecutor prepare_facts(const DeviceSet& devices, const RealOptions& options);
/// Errors (kInvalid): no device set.
Result<DeviceSet> devices_of(const messages::PrepareExecutor& prepare);
RealOptions options_of(const messages::PrepareExecutor& prepare);

messages::ScheduleFacts facts_of(const Schedule& schedule);
/// Errors (kInvalid): columns of different lengths, or an op, tensor or device out of range.
Result<Schedule> schedule_of(const messages::ScheduleFacts& facts, const OpGraph& graph, std::size_t devices);
messages::VerificationFacts facts_of(const Verification& verification);
Verification verification_of(const messages::VerificationFacts& facts);
messages::ProfileFacts facts_of(const ExecutorProfile& profile);
/// Errors (kInvalid): as schedule_of.
Result<ExecutorProfile> profile_of(const messages::ProfileFacts& facts, const OpGraph& graph,
                                   std::size_t devices);

}  // namespace emplace::launcher
