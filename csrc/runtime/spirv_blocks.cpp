#include "runtime/spirv_blocks.hpp"

#include <optional>

#include <spirv/unified1/spirv.hpp>

namespace kpx {

uint32_t SpirvBlocks::result(size_t at) const {
    bool has_result = false, has_type = false;
    spv::HasResultAndType(spv::Op(op(at)), &has_result, &has_type);
    return has_result && has_type ? words_[at + 2] : 0;
}

bool SpirvBlocks::is_loop(const SpirvBlock &block) const {
    return block.merge != 0 && op(block.merge) == spv::OpLoopMerge;
}

void SpirvBlocks::parse(size_t &at) {
    for (; op(at) != spv::OpFunctionEnd; at += length(at)) {
        if (op(at) == spv::OpLine || op(at) == spv::OpNoLine) {
            continue; // also between blocks
        }
        if (op(at) == spv::OpLabel) {
            index_[words_[at + 1]] = blocks_.size();
            blocks_.emplace_back();
            blocks_.back().label = words_[at + 1];
            blocks_.back().begin = at + length(at);
        }
        SpirvBlock &block = blocks_.back();
        if (op(at) == spv::OpSelectionMerge || op(at) == spv::OpLoopMerge) {
            block.merge = at;
        }
        block.terminator = at;
        block.end = at + length(at);
    }
}

bool SpirvBlocks::follow(SpirvTypes &types) {
    blocks_.front().predecessors = 1;
    for (size_t i = 0; i < blocks_.size(); i++) {
        if (blocks_[i].predecessors > 0 && !follow_block(types, i)) {
            return false;
        }
    }
    return true;
}

bool SpirvBlocks::follow_block(SpirvTypes &types, size_t index) {
    SpirvBlock &block = blocks_[index];
    for (size_t at = block.begin; at < block.terminator; at += length(at)) {
        if (op(at) == spv::OpPhi) {
            phi(types, index, at);
        } else if (result(at) != 0) {
            types.compute(words_ + at, length(at));
        }
    }
    block.only_target = target_of(types, block);
    if (op(block.terminator) == spv::OpSwitch && block.only_target == 0 && !has_words_for_cases(block)) {
        return false;
    }
    bool known = true;
    targets(block, [&](uint32_t label) { known = enter(label, index) && known; });
    return known;
}

// The label of the only block that this one can go to, or 0.
uint32_t SpirvBlocks::target_of(const SpirvTypes &types, const SpirvBlock &block) const {
    const uint32_t *last = words_ + block.terminator, code = op(block.terminator);
    if (code == spv::OpBranch) {
        return last[1];
    }
    if (code != spv::OpBranchConditional && code != spv::OpSwitch) {
        return 0;
    }
    const std::optional<uint32_t> chosen = types.value(last[1]);
    if (!chosen) {
        return 0;
    }
    if (code == spv::OpBranchConditional) {
        return last[*chosen != 0 ? 2 : 3];
    }
    for (uint32_t i = 3; i + 1 < length(block.terminator); i += 2) { // a known selector has 32 bits
        if (last[i] == *chosen) {
            return last[i + 1];
        }
    }
    return last[2];
}

// Whether the cases of a switch are one word each, and not two: the second word of a case is hardly a label.
bool SpirvBlocks::has_words_for_cases(const SpirvBlock &block) const {
    for (uint32_t i = 4; i < length(block.terminator); i += 2) {
        if (index_.count(words_[block.terminator + i]) == 0) {
            return false;
        }
    }
    return length(block.terminator) % 2 == 1;
}

// Calls visit with the label of each block that this one may go to.
template <typename Visit> void SpirvBlocks::targets(const SpirvBlock &block, Visit visit) const {
    const uint32_t *last = words_ + block.terminator;
    if (block.only_target != 0) {
        visit(block.only_target);
    } else if (op(block.terminator) == spv::OpBranchConditional) {
        visit(last[2]);
        visit(last[3]);
    } else if (op(block.terminator) == spv::OpSwitch) {
        visit(last[2]);
        for (uint32_t i = 4; i < length(block.terminator); i += 2) {
            visit(last[i]);
        }
    }
}

// A block comes after all that go to it, unless it is the beginning of a loop.
bool SpirvBlocks::enter(uint32_t label, size_t from) {
    SpirvBlock &to = labelled(label);
    to.predecessors++;
    if (index_.at(label) > from) {
        return true;
    }
    to.repeats = true;
    return is_loop(to);
}

bool SpirvBlocks::goes(uint32_t from, uint32_t to) {
    bool goes = false;
    if (is_reached(from)) {
        targets(labelled(from), [&](uint32_t label) { goes = goes || label == to; });
    }
    return goes;
}

// The value is known if it is the same from everywhere; what comes from a later block is not known yet.
void SpirvBlocks::phi(SpirvTypes &types, size_t index, size_t at) {
    std::optional<uint32_t> same;
    for (uint32_t i = 3; i + 1 < length(at); i += 2) {
        const uint32_t from = words_[at + i + 1];
        if (index_.at(from) >= index) {
            return;
        }
        if (!goes(from, blocks_[index].label)) {
            continue;
        }
        const auto value = types.value(words_[at + i]);
        if (!value || (same && *same != *value)) {
            return;
        }
        same = value;
    }
    if (same) {
        types.set_value(words_[at + 2], *same);
    }
}

} // namespace kpx
