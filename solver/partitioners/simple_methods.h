#pragma once
/// Trivial and human placement methods, which learned placements are compared with. Errors: those of
/// Method::find.

#include <string_view>

#include "solver/method.h"

namespace emplace {

/// `single-cpu`, `single-gpu`: everything on one device, the best of that kind.
Result<Answer> single_device(const Problem& problem, Executor& executor, std::string_view kind);

/// `random`: best of 100 random placements, half of them without the CPU; each group gets a device with room
/// for its state.
Result<Answer> random_placements(const Problem& problem, Executor& executor);

/// `round-robin`: groups assigned to devices in turn, over the GPUs and over all devices; the better one.
Result<Answer> round_robin(const Problem& problem, Executor& executor);

/// `contiguous`: issue order or scope order cut into one piece per GPU (or per device), by time or by time
/// and bytes, in proportion to speed or memory, at several offsets; the best one.
Result<Answer> contiguous(const Problem& problem, Executor& executor);

/// `expert`: the hand-made placements of the papers, by layer scope; the best measured of several variants.
/// Recurrent nets: LSTM layer i on GPU i mod k, or neighbouring layers together; attention and softmax with
/// the last layer, embeddings with their readers. Others (cells, blocks of a residual net or a transformer):
/// all on one GPU, as is usual; equal blocks by number, by cost or by bytes; and the branches of an Inception
/// module or a NASNet cell spread over the GPUs.
///                        Papers: ColocRL 2017, section 4.2  [COL-EXPERT]; Hierarchical 2018, section 3
Result<Answer> expert(const Problem& problem, Executor& executor);

}  // namespace emplace
