#pragma once
/// Writes why a lower bound holds, so that a program that shares nothing with this one can check it. Format
/// and theorems are in docs/proofs/certificates.md; scripts/check_certificate.py is the checker.

#include <string>

#include "graph/op_graph.h"
#include "placement/allowed.h"
#include "placement/machine/device.h"
#include "placement/objective.h"
#include "placement/placement.h"

namespace emplace {

/// The certificate of proven_bound() as compact JSON: the costs and dependencies that the bound is about, and
/// the values that prove it. Takes about twice as long as the bound. Pure; any thread.
std::string certificate_text(const OpGraph& graph, const DeviceSet& devices, const Constraints& constraints,
                             Objective objective, const Allowed& allowed = {});

}  // namespace emplace
