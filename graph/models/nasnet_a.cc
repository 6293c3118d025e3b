#include <utility>

#include "graph/models/networks.h"

namespace emplace::models {

Result<OpGraph> nasnet_a_graph(const NasnetOptions& options, Identity identity) {
  using enum CellOp;
  CellNetOptions cells;
  cells.normal = {{{0, 0}, {kSepConv3, kIdentity}},
                  {{1, 0}, {kSepConv3, kSepConv5}},
                  {{0, 1}, {kAvgPool3, kIdentity}},
                  {{1, 1}, {kAvgPool3, kAvgPool3}},
                  {{1, 1}, {kSepConv5, kSepConv3}}};
  cells.reduction = {{{0, 1}, {kSepConv5, kSepConv7}},
                     {{0, 1}, {kMaxPool3, kSepConv7}},
                     {{0, 1}, {kAvgPool3, kSepConv5}},
                     {{0, 2}, {kMaxPool3, kSepConv3}},
                     {{2, 3}, {kAvgPool3, kIdentity}}};
  cells.repeats = options.repeats;
  cells.batch = options.batch;
  cells.optimizer = options.optimizer;
  cells.recording = options.recording;
  return cell_net_graph(cells, std::move(identity));
}

}  // namespace emplace::models
