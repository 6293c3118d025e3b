#include "launcher/version.h"

namespace emplace::launcher {

std::string version() { return EMPLACE_VERSION; }

std::string version_report() {
  return "emplace " + version() + " (" EMPLACE_BUILD_TYPE ")\nparts: simulator, onnx import, zeromq transport\nnot in: cuda, onednn, scotch, metis\n";
}

}  // namespace emplace::launcher
