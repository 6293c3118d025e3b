#include "executor/cpu/onednn/onednn_version.h"

#include <dnnl.h>
#include <fmt/core.h>

namespace emplace::cpu::onednn {

std::string version() {
  const dnnl_version_t& loaded = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", loaded.major, loaded.minor, loaded.patch);
}

}  // namespace emplace::cpu::onednn
