#include "shaders.hpp"

const std::vector<uint32_t> spirv_add_one =
#include "spirv/add_one.inc"
    ;
const std::vector<uint32_t> spirv_atomic_sum =
#include "spirv/atomic_sum.inc"
    ;
const std::vector<uint32_t> spirv_branches =
#include "spirv/branches.inc"
    ;
const std::vector<uint32_t> spirv_branches_O0 =
#include "spirv/branches_O0.inc"
    ;
const std::vector<uint32_t> spirv_mix_neighbours =
#include "spirv/mix_neighbours.inc"
    ;
const std::vector<uint32_t> spirv_spin =
#include "spirv/spin.inc"
    ;
