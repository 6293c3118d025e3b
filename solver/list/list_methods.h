#pragma once
/// List schedulers: they place op by op along their own schedule, with the memory model of
/// solver/list/list_schedule.h, and return the best measured of several attempts. Errors: those of
/// Method::find.

#include "solver/method.h"

namespace emplace {

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
