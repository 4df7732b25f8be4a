// The blocks of a function of a valid SPIR-V module, and which of them can be reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/spirv_types.hpp"

namespace kpx {

// Places are counted in words from the beginning of the module.
struct SpirvBlock {
    uint32_t label = 0;
    size_t begin = 0; // of the first instruction after the label
    size_t merge = 0; // of OpSelectionMerge or OpLoopMerge; 0: no construct begins with this block
    size_t last = 0;  // of the instruction that ends the block
    size_t end = 0;
    uint32_t only = 0;    // the label of the block that it always goes to; 0: there are several, or none
    uint32_t ways_in = 0; // from blocks that can be reached
    bool repeats = false; // it is the beginning of a loop, and can be reached from within
};

class SpirvBlocks {
  public:
    explicit SpirvBlocks(const uint32_t *module) : words_(module) {}

    // Takes the blocks of a function, from its first label to its OpFunctionEnd, where `at` is left.
    void parse(size_t &at);
    // Follows the function from its first block, where constants decide only the way that they take. What the function
    // computes of constants is added to `types`. Returns false if the blocks are in an order that this does not know.
    bool follow(SpirvTypes &types);

    std::vector<SpirvBlock> &all() { return blocks_; }
    SpirvBlock &labelled(uint32_t label) { return blocks_[index_.at(label)]; }
    bool is_reached(uint32_t label) { return labelled(label).ways_in > 0; }
    // Whether control can get from one block directly to another.
    bool goes(uint32_t from, uint32_t to);
    bool is_loop(const SpirvBlock &block) const;
    // Of the construct that begins with a block: the label of the block after it.
    uint32_t after(const SpirvBlock &block) const { return words_[block.merge + 1]; }
    // Of a loop: the label of the block where its next round begins to be prepared.
    uint32_t next(const SpirvBlock &block) const { return words_[block.merge + 2]; }

    uint32_t op(size_t at) const { return words_[at] & 0xffff; }
    uint32_t length(size_t at) const { return words_[at] >> 16; }
    // The id of what an instruction of a function computes; 0: nothing.
    uint32_t result(size_t at) const;

  private:
    bool follow_block(SpirvTypes &types, size_t index);
    uint32_t way_out(const SpirvTypes &types, const SpirvBlock &block) const;
    void phi(SpirvTypes &types, size_t index, size_t at);
    bool enter(uint32_t label, size_t from);
    template <typename Visit> void targets(const SpirvBlock &block, Visit visit) const;

    const uint32_t *words_;
    std::vector<SpirvBlock> blocks_;             // in the module's order
    std::unordered_map<uint32_t, size_t> index_; // by label
};

} // namespace kpx
