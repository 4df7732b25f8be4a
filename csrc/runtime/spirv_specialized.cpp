#include "runtime/spirv_specialized.hpp"

#include <initializer_list>

#include <spirv/unified1/spirv.hpp>

#include "runtime/spirv_blocks.hpp"

namespace kpx {

namespace {

constexpr size_t kIdsWord = 3; // ids are below it

class Specializer : SpirvCode {
  public:
    Specializer(const uint32_t *words, size_t count, const uint32_t *spec, uint32_t n_spec)
        : SpirvCode(words), count_(count), types_(spec, n_spec), dropped_(words[kIdsWord]) {}

    std::optional<std::vector<uint32_t>> run() {
        size_t functions = kSpirvHeaderWords;
        for (; functions < count_ && op(functions) != spv::OpFunction; functions += length(functions)) {
            if (op(functions) == spv::OpGroupDecorate) {
                return {}; // it might decorate specialization constants, or values that will not be computed
            }
            types_.instruction(words_ + functions, length(functions));
        }
        for (size_t at = functions; at < count_;) {
            if (!function(at)) {
                return {};
            }
        }
        std::vector<uint32_t> out(words_, words_ + kSpirvHeaderWords);
        for (size_t at = kSpirvHeaderWords; at < functions; at += length(at)) {
            if (!is_about_dropped(at)) {
                out.insert(out.end(), words_ + at, words_ + at + length(at));
            }
        }
        out.insert(out.end(), out_.begin(), out_.end());
        return out;
    }

  private:
    // Whether it names or decorates a value that the function does not compute any more.
    bool is_about_dropped(size_t at) const {
        switch (op(at)) {
        case spv::OpName:
        case spv::OpDecorate:
        case spv::OpDecorateId:
        case spv::OpDecorateString:
            return dropped_[words_[at + 1]];
        }
        return false;
    }

    void copy(size_t from, size_t to) { out_.insert(out_.end(), words_ + from, words_ + to); }
    void put(spv::Op code, std::initializer_list<uint32_t> operands) {
        out_.push_back(uint32_t(operands.size() + 1) << spv::WordCountShift | code);
        out_.insert(out_.end(), operands);
    }

    // Takes the function at `at`, and leaves `at` after it.
    bool function(size_t &at) {
        for (; at < count_ && op(at) != spv::OpLabel; at += length(at)) {
            copy(at, at + length(at));
        }
        if (at == count_) { // lines may follow the last function
            return true;
        }
        SpirvBlocks blocks(words_);
        blocks.parse(at);
        if (!blocks.follow(types_)) {
            return false;
        }
        std::vector<bool> kept_ends(words_[kIdsWord]); // by label: merge blocks and continue targets of what stays
        // The constructs within one come after it, and are decided first.
        for (auto block = blocks.all().rbegin(); block != blocks.all().rend(); ++block) {
            if (blocks.is_reached(block->label) && block->merge != 0 && !construct(blocks, *block, kept_ends)) {
                return false;
            }
        }
        for (const SpirvBlock &block : blocks.all()) {
            if (!is_structured(blocks, block, kept_ends)) {
                return false;
            }
        }
        for (const SpirvBlock &block : blocks.all()) {
            emit(blocks, block, kept_ends[block.label]);
        }
        copy(at, at + length(at));
        at += length(at);
        return true;
    }

    // Decides whether a construct stays one. It does not if constants decide which way it goes and no branch leaves it
    // from within another construct. Returns false if it can be neither kept nor dissolved.
    static bool construct(SpirvBlocks &blocks, SpirvBlock &block, std::vector<bool> &kept_ends) {
        const bool is_loop = blocks.is_loop(block);
        bool stays = is_loop ? block.repeats : block.only_target == 0;
        if (is_loop && !stays && !is_straight(blocks, block, blocks.continue_target(block))) {
            return false; // a loop that runs once would have to become a construct of another kind
        }
        if (blocks.op(block.terminator) == spv::OpSwitch) {
            stays = stays || !is_straight(blocks, block);
        }
        if (!stays) {
            block.merge = 0;
            return true;
        }
        kept_ends[blocks.merge_block(block)] = true;
        if (is_loop) {
            kept_ends[blocks.continue_target(block)] = true;
        }
        return true;
    }

    // Whether a block that goes two ways begins a construct, or goes one of them to leave a construct that stays.
    bool is_structured(SpirvBlocks &blocks, const SpirvBlock &block, const std::vector<bool> &kept_ends) const {
        const uint32_t *last = words_ + block.terminator;
        return !blocks.is_reached(block.label) || block.only_target != 0 || block.merge != 0 ||
               op(block.terminator) != spv::OpBranchConditional || kept_ends[last[2]] || kept_ends[last[3]];
    }

    // Whether the one path from a header reaches the merge block and, in a loop, passes the continue target, as far as
    // they can be reached at all, without a branch out of a nested construct.
    static bool is_straight(SpirvBlocks &blocks, const SpirvBlock &block, uint32_t continue_target = 0) {
        const uint32_t merge_block = blocks.merge_block(block);
        if (blocks.labelled(merge_block).predecessors > 1 ||
            (continue_target != 0 && blocks.labelled(continue_target).predecessors > 1)) {
            return false;
        }
        bool passed = continue_target == 0 || !blocks.is_reached(continue_target);
        uint32_t label = block.only_target;
        while (label != 0 && label != merge_block) {
            passed = passed || label == continue_target;
            label = successor(blocks, blocks.labelled(label));
        }
        return passed && (label == merge_block || !blocks.is_reached(merge_block));
    }

    // The label of the block where control goes after a block, or after the construct whose header it is; 0: nowhere,
    // or several ways.
    static uint32_t successor(const SpirvBlocks &blocks, const SpirvBlock &block) {
        if (block.predecessors == 0) {
            return 0;
        }
        return block.merge != 0 ? blocks.merge_block(block) : block.only_target;
    }

    void emit(SpirvBlocks &blocks, const SpirvBlock &block, bool is_kept_end) {
        if (!blocks.is_reached(block.label)) {
            drop(blocks, block);
            dropped_[block.label] = !is_kept_end;
            if (is_kept_end) {
                put(spv::OpLabel, {block.label});
                put(spv::OpUnreachable, {});
            }
            return;
        }
        put(spv::OpLabel, {block.label});
        for (size_t at = block.begin; at < block.terminator; at += length(at)) {
            const bool is_merge = op(at) == spv::OpSelectionMerge || op(at) == spv::OpLoopMerge;
            if (op(at) == spv::OpPhi) {
                phi(blocks, block, at);
            } else if (!is_merge || at == block.merge) {
                copy(at, at + length(at));
            }
        }
        if (block.only_target == 0) {
            copy(block.terminator, block.end);
        } else if (block.merge != 0 && !blocks.is_loop(block)) {
            put(spv::OpSwitch, {words_[block.terminator + 1], block.only_target});
        } else {
            put(spv::OpBranch, {block.only_target});
        }
    }

    void drop(const SpirvBlocks &blocks, const SpirvBlock &block) {
        for (size_t at = block.begin; at < block.end; at += length(at)) {
            dropped_[blocks.result(at)] = true; // of 0, if there is none
        }
    }

    // Leaves out what would come from blocks that do not go here.
    void phi(SpirvBlocks &blocks, const SpirvBlock &block, size_t at) {
        const size_t begin = out_.size();
        copy(at, at + 3);
        for (uint32_t i = 3; i + 1 < length(at); i += 2) {
            if (blocks.goes(words_[at + i + 1], block.label)) {
                copy(at + i, at + i + 2);
            }
        }
        out_[begin] = uint32_t(out_.size() - begin) << spv::WordCountShift | spv::OpPhi;
    }

    size_t count_;
    SpirvTypes types_;
    std::vector<bool> dropped_; // by id: the function does not compute it any more
    std::vector<uint32_t> out_; // the functions
};

} // namespace

std::optional<std::vector<uint32_t>> specialized(const uint32_t *words, size_t count, const uint32_t *spec,
                                                 uint32_t n_spec) {
    return Specializer(words, count, spec, n_spec).run();
}

} // namespace kpx
