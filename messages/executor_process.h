#pragma once
/// What an executor that lives in a process of its own says to the executor actor that started it, and the
/// other way round, over a socket that only the two have (launcher/worker).

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"
#include "placement/measurement.h"

namespace emplace::messages {

/// A device of the machine: placement/machine/device.h, whole, so that no number is rounded on its way.
struct DeviceFacts {
  std::string name, host, profile, kind;
  std::int64_t memory_bytes = 0;          ///< The cap.
  std::int64_t profile_memory_bytes = 0;  ///< As the profile has it.
  double peak_gflops = 0, matrix_peak_gflops = 0, bandwidth_gbs = 0, bandwidth_efficiency = 1, launch_us = 0;
  std::vector<double> efficiency;         ///< By OpClass.
  std::vector<std::uint64_t> signatures;  ///< Whose costs are known, and
  std::vector<double> signature_us;       ///< what they are [us].
  EMPLACE_FIELDS(name, host, profile, kind, memory_bytes, profile_memory_bytes, peak_gflops,
                 matrix_peak_gflops, bandwidth_gbs, bandwidth_efficiency, launch_us, efficiency, signatures,
                 signature_us)
};

/// parent -> executor process, first of all. It answers ExecutorReady or ExecutorRefused.
struct PrepareExecutor {
  static constexpr std::uint16_t kType = number(Type::kPrepareExecutor);
  std::string graph_sha256;  ///< 64 hex digits.
  Section graph;             ///< As graph_msgpack() has it.
  std::vector<DeviceFacts> devices;
  std::vector<double> link_bytes_per_s;  ///< [devices, devices] row-major, source first.
  std::vector<double> link_latency_s;    ///< [devices, devices]
  std::uint32_t warmups = 5, samples = 5, most_samples = 15;
  std::uint8_t statistic = 0;  ///< TimingOptions::Statistic.
  std::uint64_t seed = 0;
  bool allow_synthetic = true;
  std::uint8_t copies = 0;  ///< CopyEngine.
  double corun = 1;
  std::vector<std::uint8_t> link_shaped;  ///< [devices, devices] 1: it is.
  EMPLACE_FIELDS(graph_sha256, graph, devices, link_bytes_per_s, link_latency_s, warmups, samples,
                 most_samples, statistic, seed, allow_synthetic, copies, corun, link_shaped)
};

/// executor process -> parent. It has the graph, and its self-test passed.
struct ExecutorReady {
  static constexpr std::uint16_t kType = number(Type::kExecutorReady);
  std::string kind;                          ///< "cpu", …
  std::string version;                       ///< Of its program and of what it computes with.
  std::vector<std::string> synthetic_types;  ///< Kinds of ops that it stands in for.
  EMPLACE_FIELDS(kind, version, synthetic_types)
};

/// executor process -> parent. It cannot run this graph here, and never will; it ends.
struct ExecutorRefused {
  static constexpr std::uint16_t kType = number(Type::kExecutorRefused);
  std::uint8_t code = 0;  ///< Errc.
  std::string error;
  EMPLACE_FIELDS(code, error)
};

/// executor process -> parent, a few times a second, from a thread that never computes.
struct ExecutorBeat {
  static constexpr std::uint16_t kType = number(Type::kExecutorBeat);
  std::uint64_t progress = 0;  ///< Rises while it gets on; one that lives and hangs repeats itself.
  EMPLACE_FIELDS(progress)
};

/// What is to be done with a placement.
enum class PlacementTask : std::uint8_t { kMeasure = 0, kTrace = 1, kVerify = 2, kProfile = 3 };

/// parent -> executor process. One at a time.
struct RunPlacement {
  static constexpr std::uint16_t kType = number(Type::kRunPlacement);
  std::uint64_t id = 0;  ///< Of all that this parent has asked for, from 1, also of earlier processes.
  PlacementTask task = PlacementTask::kMeasure;
  Section placement;  ///< [ops] one byte per op: its device. Empty: kProfile.
  EMPLACE_FIELDS(id, task, placement)
};

/// placement/schedule.h in columns.
struct ScheduleFacts {
  std::vector<std::uint32_t> ops, op_devices;
  std::vector<double> op_start_s, op_end_s;
  std::vector<std::uint32_t> tensors, sources, targets;
  std::vector<std::int64_t> transfer_bytes;
  std::vector<double> transfer_start_s, transfer_end_s;
  std::vector<std::uint32_t> level_devices;
  std::vector<double> level_at_s;
  std::vector<std::int64_t> level_bytes;
  EMPLACE_FIELDS(ops, op_devices, op_start_s, op_end_s, tensors, sources, targets, transfer_bytes,
                 transfer_start_s, transfer_end_s, level_devices, level_at_s, level_bytes)
};

/// executor/real_executor.h, Verification.
struct VerificationFacts {
  bool identical = false;
  std::uint64_t compared = 0, skipped = 0;
  std::string first_difference;
  EMPLACE_FIELDS(identical, compared, skipped, first_difference)
};

/// executor/real_executor.h, ExecutorProfile, in columns; `ops` is [devices, kernels] row-major.
struct ProfileFacts {
  std::uint32_t devices = 0;
  std::vector<std::uint32_t> ops, samples;
  std::vector<double> us, mad_us;
  std::vector<std::uint8_t> synthetic;
  std::vector<std::uint32_t> sources, targets;
  std::vector<double> latency_s, bytes_per_s;
  std::vector<double> task_overhead_us;
  double step_time_s = 0;
  EMPLACE_FIELDS(devices, ops, samples, us, mad_us, synthetic, sources, targets, latency_s, bytes_per_s,
                 task_overhead_us, step_time_s)
};

/// executor process -> parent. The answer to kMeasure.
struct PlacementRan {
  static constexpr std::uint16_t kType = number(Type::kPlacementRan);
  static constexpr PlacementTask kTask = PlacementTask::kMeasure;
  std::uint64_t id = 0;  ///< As RunPlacement has it; so in the other answers.
  Measurement measurement;
  EMPLACE_FIELDS(id, measurement)
};

/// executor process -> parent. The answer to kTrace.
struct PlacementTraced {
  static constexpr std::uint16_t kType = number(Type::kPlacementTraced);
  static constexpr PlacementTask kTask = PlacementTask::kTrace;
  std::uint64_t id = 0;
  Measurement measurement;
  ScheduleFacts schedule;
  EMPLACE_FIELDS(id, measurement, schedule)
};

/// executor process -> parent. The answer to kVerify.
struct PlacementVerified {
  static constexpr std::uint16_t kType = number(Type::kPlacementVerified);
  static constexpr PlacementTask kTask = PlacementTask::kVerify;
  std::uint64_t id = 0;
  VerificationFacts verification;
  EMPLACE_FIELDS(id, verification)
};

/// executor process -> parent. The answer to kProfile.
struct ExecutorProfiled {
  static constexpr std::uint16_t kType = number(Type::kExecutorProfiled);
  static constexpr PlacementTask kTask = PlacementTask::kProfile;
  std::uint64_t id = 0;
  ProfileFacts profile;
  EMPLACE_FIELDS(id, profile)
};

/// executor process -> parent. A task that could not be done at all; a placement that does not run is a
/// measurement that is not valid.
struct TaskFailed {
  static constexpr std::uint16_t kType = number(Type::kTaskFailed);
  std::uint64_t id = 0;
  std::uint8_t code = 0;  ///< Errc.
  std::string error;
  EMPLACE_FIELDS(id, code, error)
};

}  // namespace emplace::messages
