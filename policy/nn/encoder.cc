#include "policy/nn/encoder.h"

namespace emplace::policy {

EncoderParameters EncoderParameters::add(ParameterStore& store, const std::string& name,
                                         const EncoderOptions& options, std::uint64_t seed) {
  EncoderParameters p;
  for (std::size_t l = 0; l < options.layers; ++l) {
    const auto named = [&](const char* direction) {
      std::string full = name;
      full.append(direction);
      if (l > 0) full.append(std::to_string(l + 1));
      return full;
    };
    const Eigen::Index in = l == 0 ? options.in : options.memory_rows();
    p.forward.push_back(LstmParameters::add(store, named("_forward"), in, options.hidden, seed));
    if (!options.bidirectional) continue;
    p.backward.push_back(LstmParameters::add(store, named("_backward"), in, options.hidden, seed));
  }
  return p;
}

Encoded encode(Tape& tape, const EncoderParameters& parameters, Var x) {
  Encoded encoded{x, {}, {}};
  const std::uint32_t first[] = {0}, last[] = {static_cast<std::uint32_t>(tape.value(x).cols() - 1)};
  for (std::size_t l = 0; l < parameters.forward.size(); ++l) {
    const Var in = encoded.memory;
    Var c{}, c_back{};
    const Var forth = lstm_sequence(tape, parameters.forward[l], in, false, &c);
    const Var h = tape.lookup(forth, last);
    if (parameters.backward.empty()) {
      encoded.memory = forth;
      encoded.last_h.push_back(h);
      encoded.last_c.push_back(c);
      continue;
    }
    const Var back = lstm_sequence(tape, parameters.backward[l], in, true, &c_back);
    encoded.memory = tape.stack(forth, back);
    encoded.last_h.push_back(tape.stack(h, tape.lookup(back, first)));
    encoded.last_c.push_back(tape.stack(c, c_back));
  }
  return encoded;
}

}  // namespace emplace::policy
