#include "launcher/commands/laboratory.h"

namespace emplace::launcher {

Laboratory open_laboratory() { return {}; }

}  // namespace emplace::launcher
