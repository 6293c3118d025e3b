#pragma once

#include <string>

#include "base/result.h"
#include "launcher/cluster/cluster.h"
#include "launcher/cluster/manifest.h"

namespace emplace::launcher {

/// A cluster of kubernetes nodes as manifests (JSON, which kubectl reads): the head as a StatefulSet with a
/// volume and a Service, executors as Deployments that join it, every other role by the name of its node.
/// `name`: of the run. The files of `manifest` travel in a ConfigMap as far as one can hold them. Errors
/// (kInvalid): a node that is of another kind; files too large for that, that the image would have to hold;
/// neither a Secret with keys nor `insecure`. Pods need no rights, and only those of the run reach its head.
Result<std::string> kubernetes_manifests(const Cluster& cluster, const RunConfig& config,
                                         const Manifest& manifest, const std::string& name);

}  // namespace emplace::launcher
