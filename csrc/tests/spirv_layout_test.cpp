// The SPIR-V of this archive keeps a rule that spirv-val of Debian 12 does not know, and newer validation layers do:
// only what lies in buffers and push constants has an explicit layout. A compiler may take an array's type from a block
// for a variable of the same length.
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include <spirv/unified1/spirv.hpp>

#include "runtime/embedded.hpp"
#include "test.hpp"

using namespace kpx;

namespace {

struct Types {
    std::set<uint32_t> laid_out;                      // types with strides, or with offsets of members
    std::map<uint32_t, std::vector<uint32_t>> inside; // of arrays and structs

    bool explicit_layout(uint32_t type) const {
        if (laid_out.count(type)) {
            return true;
        }
        const auto parts = inside.find(type);
        if (parts == inside.end()) {
            return false;
        }
        for (const uint32_t part : parts->second) {
            if (explicit_layout(part)) {
                return true;
            }
        }
        return false;
    }
};

bool has_no_layout(uint32_t storage) {
    return storage == spv::StorageClassFunction || storage == spv::StorageClassPrivate ||
           storage == spv::StorageClassWorkgroup;
}

// How many variables outside of buffers have a layout.
size_t misplaced_layouts(const EmbeddedKernel &kernel) {
    Types types;
    std::map<uint32_t, uint32_t> pointee;
    size_t misplaced = 0;
    for (const uint32_t *at = kernel.spirv + 5; at < kernel.end; at += *at >> 16) {
        const uint32_t words = *at >> 16;
        CHECK(words > 0);
        switch (*at & 0xffff) {
        case spv::OpDecorate:
            if (at[2] == spv::DecorationArrayStride) {
                types.laid_out.insert(at[1]);
            }
            break;
        case spv::OpMemberDecorate:
            if (at[3] == spv::DecorationOffset) {
                types.laid_out.insert(at[1]);
            }
            break;
        case spv::OpTypeArray:
            types.inside[at[1]] = {at[2]};
            break;
        case spv::OpTypeStruct:
            types.inside[at[1]] = {at + 2, at + words};
            break;
        case spv::OpTypePointer:
            pointee[at[1]] = at[3];
            break;
        case spv::OpVariable:
            misplaced += has_no_layout(at[3]) && types.explicit_layout(pointee[at[1]]);
            break;
        }
    }
    return misplaced;
}

} // namespace

TEST(only_memory_of_buffers_has_a_layout) {
    size_t all = 0;
    for (uint32_t i = 0; i < embedded_kernel_count; i++) {
        const EmbeddedKernel &kernel = embedded_kernels[i];
        if (const size_t misplaced = misplaced_layouts(kernel)) {
            fprintf(stderr, "%s.%s: %zu variables\n", kernel.kernel, kernel.variant, misplaced);
            all += misplaced;
        }
    }
    CHECK(all == 0);
}
