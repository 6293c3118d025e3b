#include "executor/cuda/library_kernels/cudnn_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "executor/cuda/kernels/passes.h"
#include "executor/cuda/kernels/probes.h"

namespace emplace::cuda {
namespace {

constexpr std::int64_t kX = 'x', kW = 'w', kY = 'y';  // Ids of the tensors in a graph.

constexpr std::int64_t kAlignment = 16;  // Every operand's first element has it [B]: see BoundGraph.

Result<Unit> describe_tensor(Session& session, CudnnDescriptor& tensor, std::int64_t name,
                             const std::array<std::int64_t, 4>& sizes,
                             const std::array<std::int64_t, 4>& strides) {
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  EMPLACE_TRY(tensor.create(session, CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  EMPLACE_TRY(tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type));
  EMPLACE_TRY(tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes.data()));
  EMPLACE_TRY(tensor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data()));
  EMPLACE_TRY(tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name));
  EMPLACE_TRY(tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &kAlignment));
  return tensor.finalize();
}

/// Descriptor type and attribute names of a kind's node.
struct Node {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};
Node node_of(ConvolutionKind kind) {
  switch (kind) {
    case ConvolutionKind::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case ConvolutionKind::kInputGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvolutionKind::kFilterGradient:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

}  // namespace

Result<Unit> CudnnDescriptor::create(Session& session, cudnnBackendDescriptorType_t type) {
  session_ = &session;
  return session.check(session.api().dnn.BackendCreateDescriptor(type, handle_.fill(session)),
                       "cudnnBackendCreateDescriptor");
}

Result<Unit> CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                  std::int64_t count, const void* values) {
  return session_->check(session_->api().dnn.BackendSetAttribute(get(), name, type, count, values),
                         fmt::format("cudnnBackendSetAttribute {}", static_cast<int>(name)));
}

Result<Unit> CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  const cudnnBackendDescriptor_t handle = value.get();
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
}

Result<Unit> CudnnDescriptor::finalize() {
  return session_->check(session_->api().dnn.BackendFinalize(get()), "cudnnBackendFinalize");
}

namespace {

Result<Unit> describe_convolution(Session& session, CudnnDescriptor& convolution,
                                  const ConvolutionShape& shape) {
  const std::int64_t dims = 2;
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  EMPLACE_TRY(convolution.create(session, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  EMPLACE_TRY(convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims));
  EMPLACE_TRY(convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute));
  EMPLACE_TRY(convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
  EMPLACE_TRY(convolution.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, shape.pad.data()));
  EMPLACE_TRY(
      convolution.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, shape.pad_after.data()));
  EMPLACE_TRY(
      convolution.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, shape.stride.data()));
  EMPLACE_TRY(convolution.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, shape.dilation.data()));
  return convolution.finalize();
}

struct EngineNotes {
  bool precise =
      true;  ///< Computes with inputs of TF32's range: in halves numbers above 65504 become infinite.
  bool repeats = true;  ///< Gives the same bytes in every run.
};

/// Reads the notes of an engine; one that has none is taken for precise and repeatable. Errors: those of
/// Session.
Result<EngineNotes> notes_of(Session& session, const CudnnDescriptor& config) {
  constexpr std::int64_t kMost = 32;
  const auto& dnn = session.api().dnn;
  CudnnDescriptor engine;
  EMPLACE_TRY(engine.create(session, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t count = 0;
  const auto read = [&](cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                        cudnnBackendAttributeType_t type, std::int64_t most, void* to) {
    return session.check(dnn.BackendGetAttribute(of, name, type, most, &count, to),
                         "cudnnBackendGetAttribute");
  };
  cudnnBackendNumericalNote_t notes[kMost]{};
  auto known = read(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
  if (known) known = read(handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, kMost, notes);
  if (!known)
    return session.poisoned() ? Result<EngineNotes>{known.error()} : Result<EngineNotes>{EngineNotes{}};
  const std::span noted{notes, static_cast<std::size_t>(std::min(count, kMost))};
  return EngineNotes{std::ranges::count(noted, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) == 0,
                     std::ranges::count(noted, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == 0};
}

/// Bytes from a tensor's first element to its last.
std::size_t reach(const std::array<std::int64_t, 4>& sizes, const std::array<std::int64_t, 4>& strides) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < 4; ++d) last += (sizes[d] - 1) * strides[d];
  return static_cast<std::size_t>(last + 1) * sizeof(float);
}

/// What a choice depends on.
std::string choice_key(const ConvolutionShape& shape, const Lane& lane) {
  std::string key = fmt::format("{} {} {}", static_cast<int>(shape.kind), lane.processors, lane.workspace);
  for (const auto* four :
       {&shape.x, &shape.w, &shape.y, &shape.x_strides, &shape.w_strides, &shape.y_strides})
    for (const std::int64_t value : *four) key += fmt::format(" {}", value);
  for (const auto* two : {&shape.pad, &shape.pad_after, &shape.stride, &shape.dilation})
    for (const std::int64_t value : *two) key += fmt::format(" {}", value);
  return key + fmt::format(" {}", shape.groups);
}

/// An event of a trial.
class TrialEvent {
 public:
  Result<Unit> record(Session& session, cudaStream_t stream) {
    const RuntimeApi& runtime = session.api().runtime;
    EMPLACE_TRY(session.check(runtime.EventCreateWithFlags(event_.fill(session), cudaEventDefault),
                              "cudaEventCreate"));
    return session.check(runtime.EventRecord(event_.get(), stream), "cudaEventRecord");
  }
  cudaEvent_t get() const { return event_.get(); }

 private:
  Owned<cudaEvent_t, &CudaApi::runtime, &RuntimeApi::EventDestroy> event_;
};

}  // namespace

Result<ConvolutionGraph> ConvolutionGraph::describe(Session& session, const ConvolutionShape& shape) {
  ConvolutionGraph graph;
  graph.session_ = &session;
  graph.shape_ = shape;
  const auto build = [&]() -> Result<Unit> {
    EMPLACE_TRY(describe_tensor(session, graph.x_, kX, shape.x, shape.x_strides));
    EMPLACE_TRY(describe_tensor(session, graph.w_, kW, shape.w, shape.w_strides));
    EMPLACE_TRY(describe_tensor(session, graph.y_, kY, shape.y, shape.y_strides));
    EMPLACE_TRY(describe_convolution(session, graph.convolution_, shape));
    const Node names = node_of(shape.kind);
    const float alpha = 1, beta = 0;
    EMPLACE_TRY(graph.node_.create(session, names.type));
    EMPLACE_TRY(graph.node_.set(names.x, graph.x_));
    EMPLACE_TRY(graph.node_.set(names.w, graph.w_));
    EMPLACE_TRY(graph.node_.set(names.y, graph.y_));
    EMPLACE_TRY(graph.node_.set(names.convolution, graph.convolution_));
    EMPLACE_TRY(graph.node_.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &alpha));
    EMPLACE_TRY(graph.node_.set(names.beta, CUDNN_TYPE_FLOAT, 1, &beta));
    return graph.node_.finalize();
  };
  EMPLACE_TRY(build());
  return graph;
}

Result<std::vector<ConvolutionGraph::Engine>> ConvolutionGraph::engines(const Lane& lane,
                                                                        std::optional<std::size_t> only,
                                                                        std::size_t most) {
  constexpr std::int64_t kMaxConfigs = 16;
  Session& session = *session_;
  const cudnnHandle_t handle = lane.dnn;
  const std::int64_t most_workspace = std::max(lane.workspace, static_cast<std::int64_t>(kMaxWorkspace));
  CudnnDescriptor heuristics;
  std::vector<Engine> found;
  std::size_t number = 0;
  Error last{Errc::kUnsupported, "cuDNN has no engine for this convolution"};
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    EMPLACE_TRY(heuristics.create(session, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    EMPLACE_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations_));
    EMPLACE_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    if (const auto target = static_cast<std::int32_t>(lane.processors); target > 0)
      EMPLACE_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &target));
    if (auto ready = heuristics.finalize(); !ready) {  // Some heuristics do not support every convolution.
      if (session.poisoned() || ready.error().code == Errc::kOutOfMemory) return ready.error();
      last = Error{Errc::kUnsupported, ready.error().context};
      heuristics = CudnnDescriptor{};
      continue;
    }
    std::vector<CudnnDescriptor> configs(kMaxConfigs);
    std::vector<cudnnBackendDescriptor_t> handles;
    for (CudnnDescriptor& config : configs) {
      EMPLACE_TRY(config.create(session, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      handles.push_back(config.get());
    }
    std::int64_t count = 0;
    EMPLACE_TRY(session.check(session.api().dnn.BackendGetAttribute(
                                  heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, kMaxConfigs, &count, handles.data()),
                              "cudnnBackendGetAttribute engine configs"));
    configs.resize(static_cast<std::size_t>(std::min(count, kMaxConfigs)));
    for (CudnnDescriptor& config : configs) {
      const std::size_t mine = number++;
      if (only && mine != *only) continue;
      EMPLACE_TRY_ASSIGN(const EngineNotes notes, notes_of(session, config));
      if (!notes.precise) continue;
      Engine engine{.number = mine, .repeats = notes.repeats};
      const auto build = [&]() -> Result<Unit> {
        EMPLACE_TRY(engine.plan.create(session, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
        EMPLACE_TRY(engine.plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
        EMPLACE_TRY(engine.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config));
        return engine.plan.finalize();
      };
      // The heuristics may name engines that refuse the plan; the next one may work.
      if (auto built = build(); !built) {
        if (session.poisoned() || built.error().code == Errc::kOutOfMemory) return built.error();
        last = Error{Errc::kUnsupported, built.error().context};
        continue;
      }
      std::int64_t bytes = 0, values = 0;
      EMPLACE_TRY(session.check(
          session.api().dnn.BackendGetAttribute(engine.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &values, &bytes),
          "cudnnBackendGetAttribute workspace"));
      if (bytes > most_workspace) continue;
      engine.workspace_bytes = static_cast<std::size_t>(bytes);
      engine.config = std::move(config);
      found.push_back(std::move(engine));
      if (found.size() == most) return found;
    }
    heuristics = CudnnDescriptor{};
    if (!found.empty()) return found;  // The fallback is for convolutions without another engine.
  }
  if (found.empty()) return last;
  return found;
}

Result<std::optional<double>> ConvolutionGraph::trial_us(const Lane& lane, const Engine& engine) const {
  constexpr int kRuns = 3;
  constexpr std::uint64_t kHoldNs = 100'000;  // While the host enqueues the runs.
  std::byte* at = lane.trial_memory.data();
  std::size_t left = lane.trial_memory.size();
  void* operands[4]{};
  const std::size_t bytes[] = {reach(shape_.x, shape_.x_strides), reach(shape_.w, shape_.w_strides),
                               reach(shape_.y, shape_.y_strides), engine.workspace_bytes};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t rounded = (bytes[i] + 511) / 512 * 512;
    if (rounded > left) return std::optional<double>{};
    operands[i] = at;
    at += rounded, left -= rounded;
  }
  Session& session = *session_;
  TrialEvent begin, end;
  const auto time = [&]() -> Result<double> {
    const auto run = [&] {
      return run_plan(lane.dnn, engine.plan, operands[0], operands[1], operands[2], operands[3]);
    };
    EMPLACE_TRY(enqueue_zeros(lane, lane.trial_memory.data(),
                              static_cast<std::size_t>(at - lane.trial_memory.data())));
    EMPLACE_TRY(run());  // Loads its kernels.
    EMPLACE_TRY(enqueue_spin(lane, kHoldNs));
    EMPLACE_TRY(begin.record(session, lane.stream));
    for (int i = 0; i < kRuns; ++i) EMPLACE_TRY(run());
    EMPLACE_TRY(end.record(session, lane.stream));
    EMPLACE_TRY(session.check(session.api().runtime.StreamSynchronize(lane.stream), "cudaStreamSynchronize"));
    float ms = 0;
    EMPLACE_TRY(session.check(session.api().runtime.EventElapsedTime(&ms, begin.get(), end.get()),
                              "cudaEventElapsedTime"));
    return static_cast<double>(ms) * 1e3;
  };
  const auto us = time();
  if (us) return std::optional{*us / kRuns};
  if (session.poisoned()) return session.sticky_error();
  return std::optional<double>{};
}

void ConvolutionGraph::take(Engine engine) {
  config_ = std::move(engine.config), plan_ = std::move(engine.plan);
  workspace_bytes_ = engine.workspace_bytes;
}

Result<Unit> ConvolutionGraph::plan(const Lane& lane) {
  constexpr std::size_t kTimed = 3;
  Session& session = *session_;
  const cudnnHandle_t handle = lane.dnn;
  const cudnnBackendDescriptor_t node = node_.get();
  EMPLACE_TRY(operations_.create(session, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  EMPLACE_TRY(operations_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
  EMPLACE_TRY(operations_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &node));
  EMPLACE_TRY(operations_.finalize());
  const std::string key = choice_key(shape_, lane);
  const auto chosen = lane.engines == nullptr ? std::nullopt : lane.engines->find(key);
  if (chosen) {
    // A device that differs after all has its own engines.
    auto same = engines(lane, chosen, 1);
    if (same) return take(std::move(same->front())), Unit{};
    if (session.poisoned() || same.error().code == Errc::kOutOfMemory) return same.error();
  }
  EMPLACE_TRY_ASSIGN(auto found, engines(lane, std::nullopt, kTimed));
  std::ranges::stable_partition(found, &Engine::repeats);
  if (found.front().repeats) std::erase_if(found, [](const Engine& engine) { return !engine.repeats; });
  std::size_t best = 0;
  if (lane.engines != nullptr && lane.engines->tune() && found.size() > 1) {
    std::optional<double> least_us;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EMPLACE_TRY_ASSIGN(const auto us, trial_us(lane, found[i]));
      if (us && (!least_us || *us < *least_us)) least_us = us, best = i;
    }
  }
  if (lane.engines != nullptr) lane.engines->keep(key, found[best].number);
  return take(std::move(found[best])), Unit{};
}

Result<Unit> ConvolutionGraph::run_plan(cudnnHandle_t handle, const CudnnDescriptor& plan, const void* x,
                                        const void* w, const void* y, void* workspace) const {
  CudnnDescriptor pack;
  const std::int64_t names[] = {kX, kW, kY};
  const void* const pointers[] = {x, w, y};
  EMPLACE_TRY(pack.create(*session_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  EMPLACE_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, names));
  EMPLACE_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers));
  EMPLACE_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  EMPLACE_TRY(pack.finalize());
  return session_->check(session_->api().dnn.BackendExecute(handle, plan.get(), pack.get()),
                         "cudnnBackendExecute");
}

Result<Unit> ConvolutionGraph::run(cudnnHandle_t handle, const void* x, const void* w, const void* y,
                                   void* workspace) const {
  return run_plan(handle, plan_, x, w, y, workspace);
}

}  // namespace emplace::cuda
