#pragma once
/// The heuristics: trivial and human methods, which learned placements are compared with; static mapping by
/// graph partitioners; and list schedulers. Errors: those of Method::find; kNoPlacement if a library fails.

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

// Graph partitioners: balanced work, small cut. They ignore order and time.

/// `scotch`: Scotch maps ops, and scopes, onto the devices weighted by their speed, with and without the CPU.
/// An edge weighs its transfer time; balanced by time, and by time and bytes. Thread: concurrent calls are
/// allowed.
///        Source: Pellegrini, Distillating knowledge about Scotch, 2009; Paper: ColocRL 2017, section 4.2
///        [COL-SCOTCH]
Result<Answer> scotch(const Problem& problem, Executor& executor);

/// `mincut`: ColocRL's comparison: Scotch without the CPU, an edge weighs its bytes, and balance is loose, so
/// that the cut dominates. The CPU runs only what no GPU may run.
///                                                             Paper: ColocRL 2017, section 4.2  [COL-MINCUT]
Result<Answer> min_cut(const Problem& problem, Executor& executor);
/// `mincut-cpu`: the same cuts with the CPU as a further part, for graphs that the GPUs cannot hold. Not in
/// the paper.
Result<Answer> min_cut_with_cpu(const Problem& problem, Executor& executor);

/// `metis`: METIS' k-way and recursive partitions of ops, and of scopes, by device speed; with and without
/// bytes as second constraint; tight and loose; with and without the CPU. Thread: concurrent calls are
/// serialised.
///        Source: Karypis, Kumar, SIAM J. Sci. Comput. 20(1), 1998; Paper: Spotlight 2018, section 5.2
///        [SPO-METIS]
Result<Answer> metis(const Problem& problem, Executor& executor);

// List schedulers: they place op by op along their own schedule, with the memory model of
// solver/list/list_schedule.h, and return the best measured of several attempts.

/// `heft`: ops by decreasing upward rank (mean time and mean transfer to the end), each on the device where
/// it ends first, also in a gap between two scheduled ops that is long enough.
///                  Paper: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, section 4.1  [HEFT]
Result<Answer> heft(const Problem& problem, Executor& executor);

/// `m-topo`: topological order, filled device by device: the next device is started when the live bytes of
/// the current one reach a bound. The bounds tried range from an even share to the whole memory.
///                  Paper: Jeon et al., Baechi, SoCC 2020, section 3.1  [BAECHI-TOPO]
Result<Answer> m_topo(const Problem& problem, Executor& executor);

/// `m-etf`: repeatedly the ready op with the earliest start, on the device where it starts earliest; devices
/// without enough memory are excluded. On unequal devices the time that an op loses to its fastest device
/// counts as waiting.
///                  Paper: Baechi, SoCC 2020, section 3.2; Hwang et al., SIAM J. Comput. 18, 1989
///                  [BAECHI-ETF]
Result<Answer> m_etf(const Problem& problem, Executor& executor);

/// `m-sct`: m-etf in which a device waits for the favourite child of the op it ran last, for as long as the
/// child could not start elsewhere either.
///                  Paper: Baechi, SoCC 2020, section 3.3; Hanen, Munier, 1995  [BAECHI-SCT]
Result<Answer> m_sct(const Problem& problem, Executor& executor);

}  // namespace emplace
