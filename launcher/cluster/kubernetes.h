#pragma once

#include <string>

#include "base/result.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/manifest.h"

namespace emplace::launcher {

/// Returns Kubernetes manifests (JSON) of a cluster: the head as a StatefulSet with a volume and a Service,
/// executors as Deployments that join it, every other role as a Deployment with the name of its node. `name`:
/// name of the run. A ConfigMap contains the files of `manifest`. Pods need no privileges, and only pods of
/// the run can reach its head. Errors (kInvalid): a node that is not a kubernetes node; files too large for a
/// ConfigMap; neither a Secret with keys nor `insecure`.
Result<std::string> kubernetes_manifests(const Cluster& cluster, const RunConfig& config,
                                         const Manifest& manifest, const std::string& name);

}  // namespace emplace::launcher
