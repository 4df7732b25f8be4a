// The blocks of a function of a valid SPIR-V module, and which of them can be reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/spirv_types.hpp"

namespace kpx {

// The instructions of a module. Places are counted in words from its beginning.
class SpirvCode {
  public:
    explicit SpirvCode(const uint32_t *words) : words_(words) {}

    uint32_t op(size_t at) const { return words_[at] & 0xffff; }
    uint32_t length(size_t at) const { return words_[at] >> 16; }

  protected:
    const uint32_t *words_;
};

struct SpirvBlock {
    uint32_t label = 0;
    size_t begin = 0; // of the first instruction after the label
    size_t merge = 0; // OpSelectionMerge or OpLoopMerge; 0: the block is no header of a construct
    size_t terminator = 0;
    size_t end = 0;            // after the terminator
    uint32_t only_target = 0;  // the label of the block that it always goes to; 0: there are several, or none
    uint32_t predecessors = 0; // edges from blocks that can be reached
    bool repeats = false;      // it is a loop's header, and the loop can be continued
};

class SpirvBlocks : public SpirvCode {
  public:
    using SpirvCode::SpirvCode;

    // Takes the blocks of a function, from its first label to its OpFunctionEnd, where `at` is left.
    void parse(size_t &at);
    // Follows the function from its first block, where constants decide only the way that they take. What the function
    // computes of constants is added to `types`. Returns false if the blocks are in an order that this does not know.
    bool follow(SpirvTypes &types);

    std::vector<SpirvBlock> &all() { return blocks_; }
    SpirvBlock &labelled(uint32_t label) { return blocks_[index_.at(label)]; }
    bool is_reached(uint32_t label) { return labelled(label).predecessors > 0; }
    // Whether there is an edge from one block to another that can be taken.
    bool goes(uint32_t from, uint32_t to);
    bool is_loop(const SpirvBlock &block) const;
    // The labels that a header names, of the block after the construct and of the one that continues a loop.
    uint32_t merge_block(const SpirvBlock &block) const { return words_[block.merge + 1]; }
    uint32_t continue_target(const SpirvBlock &block) const { return words_[block.merge + 2]; }

    // The id of what an instruction of a function computes; 0: nothing.
    uint32_t result(size_t at) const;

  private:
    bool follow_block(SpirvTypes &types, size_t index);
    uint32_t target_of(const SpirvTypes &types, const SpirvBlock &block) const;
    bool has_words_for_cases(const SpirvBlock &block) const;
    void phi(SpirvTypes &types, size_t index, size_t at);
    bool enter(uint32_t label, size_t from);
    template <typename Visit> void targets(const SpirvBlock &block, Visit visit) const;

    std::vector<SpirvBlock> blocks_;             // in the module's order
    std::unordered_map<uint32_t, size_t> index_; // by label
};

} // namespace kpx
