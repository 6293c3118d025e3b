#include "lab/formats/published_formats.h"

#include "graph/formats/graph_file.h"
#include "lab/formats/doppler.h"
#include "lab/formats/pipedream.h"
#include "lab/formats/piper.h"

namespace emplace {

void add_published_formats() {
  add_format({GraphFormat::kPipedream, "pipedream", looks_like_pipedream, parse_sized<parse_pipedream>});
  add_format({GraphFormat::kDoppler, "doppler", looks_like_doppler, parse_sized<parse_doppler>});
  add_format({GraphFormat::kPiper, "piper", looks_like_piper, parse_sized<parse_piper>});
}

}  // namespace emplace
