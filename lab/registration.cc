// The one place where the program meets the laboratory.
#include "lab/formats/published_formats.h"
#include "lab/pretrained/train_command.h"
#include "lab/towers/towers.h"
#include "lab/worlds/generate_worlds.h"
#include "launcher/commands/laboratory.h"
#include "solver/methods.h"

namespace emplace::launcher {

Laboratory open_laboratory() {
  add_published_formats();
  static const TowersSync towers_sync;
  static const TowersAsync towers_async;
  add_transforming_methods({&towers_sync, &towers_async});
  return {.make_train = lab::make_train, .generate_worlds = lab::generate_worlds};
}

}  // namespace emplace::launcher
