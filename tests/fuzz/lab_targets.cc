#include "lab/formats/published_formats.h"
#include "tests/fuzz/targets.h"

namespace emplace::fuzz {
namespace {

const bool kAdded = (add_published_formats(), true);

}  // namespace

void doppler(Input bytes) { check_format(bytes, GraphFormat::kDoppler); }
void piper(Input bytes) { check_format(bytes, GraphFormat::kPiper); }

}  // namespace emplace::fuzz
