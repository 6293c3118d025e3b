#include "executor/cpu/onednn/onednn_version.h"

#include <dnnl.h>

namespace emplace::cpu::onednn {

std::string version() {
  const dnnl_version_t& loaded = *dnnl_version();
  return "oneDNN " + std::to_string(loaded.major) + "." + std::to_string(loaded.minor) + "." +
         std::to_string(loaded.patch);
}

}  // namespace emplace::cpu::onednn
