#pragma once
/// The workloads that other papers on placement published.

namespace emplace {

/// Adds pipedream, doppler and piper to the formats of graph/formats/graph_file.h. Thread: the main one,
/// once, before a graph is read.
void add_published_formats();

}  // namespace emplace
