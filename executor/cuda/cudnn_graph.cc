#include "executor/cuda/cudnn_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

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

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : session_{other.session_}, handle_{std::exchange(other.handle_, nullptr)} {}

CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(handle_, other.handle_);
  return *this;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (handle_ == nullptr) return;
  session_->give_back([&](const CudaApi& api) { return api.dnn.BackendDestroyDescriptor(handle_); });
}

Result<Unit> CudnnDescriptor::create(Session& session, cudnnBackendDescriptorType_t type) {
  session_ = &session;
  return session.check(session.api().dnn.BackendCreateDescriptor(type, &handle_),
                       "cudnnBackendCreateDescriptor");
}

Result<Unit> CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                  std::int64_t count, const void* values) {
  return session_->check(session_->api().dnn.BackendSetAttribute(handle_, name, type, count, values),
                         fmt::format("cudnnBackendSetAttribute {}", static_cast<int>(name)));
}

Result<Unit> CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
}

Result<Unit> CudnnDescriptor::finalize() {
  return session_->check(session_->api().dnn.BackendFinalize(handle_), "cudnnBackendFinalize");
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

/// False for an engine that computes with inputs of fewer bits than TF32's range: numbers above 65504 become
/// infinite there. An engine that has no notes is taken for exact. Errors: those of Session.
Result<bool> keeps_precision(Session& session, const CudnnDescriptor& config) {
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
  if (auto known = read(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
      !known)
    return session.poisoned() ? Result<bool>{known.error()} : Result<bool>{true};
  cudnnBackendNumericalNote_t notes[kMost]{};
  if (auto known = read(handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, kMost, notes);
      !known)
    return session.poisoned() ? Result<bool>{known.error()} : Result<bool>{true};
  return std::find(notes, notes + std::min(count, kMost), CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) ==
         notes + std::min(count, kMost);
}

}  // namespace

Result<ConvolutionGraph> ConvolutionGraph::describe(Session& session, const ConvolutionShape& shape) {
  ConvolutionGraph graph;
  graph.session_ = &session;
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

Result<Unit> ConvolutionGraph::plan(cudnnHandle_t handle, int processors, std::int64_t most_workspace) {
  constexpr std::int64_t kMaxConfigs = 16;
  Session& session = *session_;
  CudnnDescriptor operations, heuristics;
  const cudnnBackendDescriptor_t node = node_.get();
  EMPLACE_TRY(operations.create(session, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  EMPLACE_TRY(operations.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
  EMPLACE_TRY(operations.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &node));
  EMPLACE_TRY(operations.finalize());
  Error last{Errc::kUnsupported, "cuDNN has no engine for this convolution"};
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    EMPLACE_TRY(heuristics.create(session, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    EMPLACE_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations));
    EMPLACE_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    if (const auto target = static_cast<std::int32_t>(processors); target > 0)
      EMPLACE_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &target));
    if (auto ready = heuristics.finalize(); !ready) {  // Some heuristics do not support every convolution.
      if (session.poisoned() || ready.error().code == Errc::kOutOfMemory) return ready;
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
    std::int64_t found = 0;
    EMPLACE_TRY(session.check(session.api().dnn.BackendGetAttribute(
                                  heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, kMaxConfigs, &found, handles.data()),
                              "cudnnBackendGetAttribute engine configs"));
    for (std::int64_t i = 0; i < std::min(found, kMaxConfigs); ++i) {
      EMPLACE_TRY_ASSIGN(const bool exact, keeps_precision(session, configs[static_cast<std::size_t>(i)]));
      if (!exact) continue;
      CudnnDescriptor plan;
      const auto build = [&]() -> Result<Unit> {
        EMPLACE_TRY(plan.create(session, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
        EMPLACE_TRY(plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
        EMPLACE_TRY(plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[static_cast<std::size_t>(i)]));
        return plan.finalize();
      };
      // The heuristics may name engines that refuse the plan; the next one may work.
      if (auto built = build(); !built) {
        if (session.poisoned() || built.error().code == Errc::kOutOfMemory) return built;
        last = Error{Errc::kUnsupported, built.error().context};
        continue;
      }
      std::int64_t bytes = 0, count = 0;
      EMPLACE_TRY(session.check(
          session.api().dnn.BackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &count, &bytes),
          "cudnnBackendGetAttribute workspace"));
      if (bytes > most_workspace) continue;
      plan_ = std::move(plan);
      config_ = std::move(configs[static_cast<std::size_t>(i)]);
      operations_ = std::move(operations);
      workspace_bytes_ = static_cast<std::size_t>(bytes);
      return Unit{};
    }
    heuristics = CudnnDescriptor{};
  }
  return last;
}

Result<Unit> ConvolutionGraph::run(cudnnHandle_t handle, const void* x, const void* w, const void* y,
                                   void* workspace) const {
  CudnnDescriptor pack;
  const std::int64_t names[] = {kX, kW, kY};
  const void* const pointers[] = {x, w, y};
  EMPLACE_TRY(pack.create(*session_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  EMPLACE_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, names));
  EMPLACE_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers));
  EMPLACE_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  EMPLACE_TRY(pack.finalize());
  return session_->check(session_->api().dnn.BackendExecute(handle, plan_.get(), pack.get()),
                         "cudnnBackendExecute");
}

}  // namespace emplace::cuda
