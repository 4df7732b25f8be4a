// SPIR-V of the test shaders.
#pragma once

#include <cstdint>
#include <vector>

extern const std::vector<uint32_t> spirv_add_one, spirv_atomic_sum, spirv_branches, spirv_branches_O0,
    spirv_mix_neighbours, spirv_spin;
