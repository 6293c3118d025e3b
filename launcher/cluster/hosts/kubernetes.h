#pragma once

#include <string>

#include "base/result.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/files/manifest.h"

namespace emplace::launcher {

/// Returns Kubernetes manifests (JSON) of a cluster, of kinds that end when the run ends: the head as a Job
/// with a volume and a Service; every other role as a Job with the name of its node; executors as an indexed
/// Job, or as a Deployment that KEDA resizes by the run's demand (if their node is elastic). With
/// kubernetes.kind = "jobset" the Jobs are parts of one JobSet. `name`: name of the run. A ConfigMap contains
/// the files of `manifest`. Pods need no privileges, and only pods of the run can reach its head. Errors
/// (kInvalid): a node that is not a kubernetes node; files too large for a ConfigMap; names too long for a
/// Job; neither a Secret with keys nor `insecure`.
Result<std::string> kubernetes_manifests(const Cluster& cluster, const RunConfig& config,
                                         const Manifest& manifest, const std::string& name);

}  // namespace emplace::launcher
