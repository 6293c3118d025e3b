#pragma once
/// Protocol between an executor in a separate process and the executor actor that started it, over a
/// private socket (launcher/worker).

#include <cstdint>
#include <string>
#include <vector>

#include "messages/codec.h"
#include "messages/type_ids.h"
#include "placement/measurement.h"

namespace emplace::messages {

/// A device of the machine. Mirrors all of placement/machine/device.h, so that no number is rounded in
/// transit.
struct DeviceFacts {
  std::string name, host, profile, kind;
  std::int64_t memory_bytes = 0;          ///< Memory cap [bytes].
  std::int64_t profile_memory_bytes = 0;  ///< Memory in the device profile [bytes].
  double peak_gflops = 0, matrix_peak_gflops = 0, bandwidth_gbs = 0, bandwidth_efficiency = 1, launch_us = 0;
  std::vector<double> efficiency;         ///< [OpClass] Efficiency per op class.
  std::vector<std::uint64_t> signatures;  ///< Op signatures with known costs.
  std::vector<double> signature_us;       ///< [signatures] Cost of each signature [us].
  std::uint8_t costs = 1;                 ///< CostVersion.
  std::uint32_t own_efficiency = 0;       ///< Bit of each OpClass whose efficiency is the user's own.
  std::vector<double> peaks_gflops;       ///< [Arithmetic] Of cost version 2, as the following ones.
  std::int64_t l2_bytes = 0;
  std::vector<std::string> tables;  ///< Devices of the catalogue whose measured kernels time it.
  std::string family;
  double dispatch_us = 0, unaligned_rate = 1;
  EMPLACE_FIELDS(name, host, profile, kind, memory_bytes, profile_memory_bytes, peak_gflops,
                 matrix_peak_gflops, bandwidth_gbs, bandwidth_efficiency, launch_us, efficiency, signatures,
                 signature_us, costs, own_efficiency, peaks_gflops, l2_bytes, tables, family, dispatch_us,
                 unaligned_rate)
};

/// parent -> executor process, the first message. Answer: ExecutorReady or ExecutorRefused.
struct PrepareExecutor {
  static constexpr std::uint16_t kType = number(Type::kPrepareExecutor);
  std::string graph_sha256;  ///< 64 hex digits.
  Section graph;             ///< Encoded by graph_msgpack().
  std::vector<DeviceFacts> devices;
  std::vector<double> link_bytes_per_s;  ///< [devices, devices] Row-major, source first.
  std::vector<double> link_latency_s;    ///< [devices, devices] Row-major, source first.
  std::uint32_t warmups = 5, samples = 5, most_samples = 15;
  std::uint8_t statistic = 0;  ///< TimingOptions::Statistic.
  std::uint64_t seed = 0;
  bool allow_synthetic = true;
  std::uint8_t copies = 0;  ///< CopyEngine.
  double corun = 1;
  std::vector<std::uint8_t> link_shaped;  ///< [devices, devices] 1: the link is shaped.
  double stop_ratio = 0;                  ///< TimingOptions::stop_ratio.
  bool capture = true;                    ///< TimingOptions::capture.
  bool tune = true;                       ///< TimingOptions::tune.
  std::vector<std::string> link_names;    ///< [devices, devices] Link::name.
  EMPLACE_FIELDS(graph_sha256, graph, devices, link_bytes_per_s, link_latency_s, warmups, samples,
                 most_samples, statistic, seed, allow_synthetic, copies, corun, link_shaped, stop_ratio,
                 capture, tune, link_names)
};

/// executor process -> parent: the graph is loaded and the self-test passed.
struct ExecutorReady {
  static constexpr std::uint16_t kType = number(Type::kExecutorReady);
  std::string kind;                          ///< "cpu", "torch", …
  std::string version;                       ///< Version of its program and of its compute libraries.
  std::vector<std::string> synthetic_types;  ///< Kinds of ops that run as synthetic stand-ins.
  /// Names of devices of another kind that CPU cores stand in for. Only emplace-exec-torch reports them: it
  /// alone decides when it starts which devices it has.
  std::vector<std::string> stand_ins;
  EMPLACE_FIELDS(kind, version, synthetic_types, stand_ins)
};

/// executor process -> parent: this graph can never run on this machine. The process exits.
struct ExecutorRefused {
  static constexpr std::uint16_t kType = number(Type::kExecutorRefused);
  std::uint8_t code = 0;  ///< Errc.
  std::string error;
  EMPLACE_FIELDS(code, error)
};

/// executor process -> parent, a few times a second, from a thread that does not compute.
struct ExecutorBeat {
  static constexpr std::uint16_t kType = number(Type::kExecutorBeat);
  std::uint64_t progress = 0;  ///< Increases while there is progress; a hung process repeats the value.
  EMPLACE_FIELDS(progress)
};

/// What to do with a placement.
enum class PlacementTask : std::uint8_t { kMeasure = 0, kTrace = 1, kVerify = 2, kProfile = 3 };

/// parent -> executor process. One request at a time.
struct RunPlacement {
  static constexpr std::uint16_t kType = number(Type::kRunPlacement);
  std::uint64_t id = 0;  ///< Request number of this parent, from 1; continues across restarts of the process.
  PlacementTask task = PlacementTask::kMeasure;
  Section placement;  ///< [ops] Device of each op, one byte each. Empty for kProfile.
  /// [ops] The placement that is probably measured next, which may be prepared meanwhile. Empty: unknown.
  Section next;
  EMPLACE_FIELDS(id, task, placement, next)
};

/// placement/schedule.h as columns.
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

/// Verification of executor/real_executor.h.
struct VerificationFacts {
  bool identical = false;
  std::uint64_t compared = 0, skipped = 0;
  std::string first_difference;
  EMPLACE_FIELDS(identical, compared, skipped, first_difference)
};

/// ExecutorProfile of executor/real_executor.h as columns; `ops` is [devices, kernels] row-major.
struct ProfileFacts {
  std::uint32_t devices = 0;
  std::vector<std::uint32_t> ops, samples;
  std::vector<double> us, mad_us;
  std::vector<std::uint8_t> synthetic;
  std::vector<std::uint32_t> sources, targets;
  std::vector<double> latency_s, bytes_per_s;
  std::vector<double> task_overhead_us;
  double step_time_s = 0;
  std::vector<double> hot_us, cold_us;  ///< [devices, kernels] Or empty: calls are not timed in a row.
  std::vector<double> task_host_us;     ///< [devices] Or empty: no host enqueues tasks.
  std::vector<double> corun;            ///< [devices] Or empty: no devices share hardware.
  EMPLACE_FIELDS(devices, ops, samples, us, mad_us, synthetic, sources, targets, latency_s, bytes_per_s,
                 task_overhead_us, step_time_s, hot_us, cold_us, task_host_us, corun)
};

/// executor process -> parent. The answer to kMeasure.
struct PlacementRan {
  static constexpr std::uint16_t kType = number(Type::kPlacementRan);
  static constexpr PlacementTask kTask = PlacementTask::kMeasure;
  std::uint64_t id = 0;  ///< Copied from RunPlacement, here and in the other answers.
  Measurement measurement;
  std::vector<std::string> notes;  ///< RealExecutor::notes().
  EMPLACE_FIELDS(id, measurement, notes)
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

/// executor process -> parent: the task failed as a whole. A placement that does not run is not a failed
/// task; it is an invalid measurement.
struct TaskFailed {
  static constexpr std::uint16_t kType = number(Type::kTaskFailed);
  std::uint64_t id = 0;
  std::uint8_t code = 0;  ///< Errc.
  std::string error;
  EMPLACE_FIELDS(id, code, error)
};

}  // namespace emplace::messages
