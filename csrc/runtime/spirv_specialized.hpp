// A module without what its specialization constants rule out: one kernel serves many shapes and dtypes, of which a
// pipeline needs one. The blocks of the others are often nine tenths of the module, and what a driver spends most of
// its time on until it finds out that it does not need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kpx {

// Returns the module without the blocks that cannot be reached if specialization constants 0, 1, … have these values.
// It still has the constants, so the pipeline must be given the same values. Returns nothing if the blocks of the
// module, which must be valid, have a form that this does not know.
std::optional<std::vector<uint32_t>> specialized(const uint32_t *words, size_t count, const uint32_t *spec,
                                                 uint32_t n_spec);

} // namespace kpx
