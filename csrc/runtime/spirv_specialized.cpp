#include "runtime/spirv_specialized.hpp"

#include <initializer_list>

#include <spirv/unified1/spirv.hpp>

#include "runtime/spirv_blocks.hpp"

namespace kpx {

namespace {

constexpr size_t kHeaderWords = 5; // of a module
constexpr size_t kIdsWord = 3;     // ids are below it

class Specializer {
  public:
    Specializer(const uint32_t *words, size_t count, const uint32_t *spec, uint32_t n_spec)
        : words_(words), count_(count), types_(spec, n_spec), dropped_(words[kIdsWord]) {}

    std::optional<std::vector<uint32_t>> run() {
        size_t functions = kHeaderWords;
        for (; functions < count_ && op(functions) != spv::OpFunction; functions += length(functions)) {
            types_.instruction(words_ + functions, length(functions));
        }
        for (size_t at = functions; at < count_;) {
            if (!function(at)) {
                return {};
            }
        }
        std::vector<uint32_t> out(words_, words_ + kHeaderWords);
        for (size_t at = kHeaderWords; at < functions; at += length(at)) {
            if (!is_about_dropped(at)) {
                out.insert(out.end(), words_ + at, words_ + at + length(at));
            }
        }
        out.insert(out.end(), out_.begin(), out_.end());
        return out;
    }

  private:
    uint32_t op(size_t at) const { return words_[at] & spv::OpCodeMask; }
    uint32_t length(size_t at) const { return words_[at] >> spv::WordCountShift; }

    // Whether it names or decorates a value that the function does not compute any more.
    bool is_about_dropped(size_t at) const {
        return (op(at) == spv::OpName || op(at) == spv::OpDecorate) && dropped_[words_[at + 1]];
    }

    void copy(size_t from, size_t to) { out_.insert(out_.end(), words_ + from, words_ + to); }
    void put(spv::Op code, std::initializer_list<uint32_t> operands) {
        out_.push_back(uint32_t(operands.size() + 1) << spv::WordCountShift | code);
        out_.insert(out_.end(), operands);
    }

    // Takes the function at `at` and goes behind it.
    bool function(size_t &at) {
        for (; op(at) != spv::OpLabel; at += length(at)) {
            copy(at, at + length(at));
        }
        SpirvBlocks blocks(words_);
        blocks.parse(at);
        if (!blocks.follow(types_)) {
            return false;
        }
        std::vector<bool> ends(words_[kIdsWord]); // by label: a construct that stays ends before that block
        for (SpirvBlock &block : blocks.all()) {
            if (blocks.is_reached(block.label) && block.merge != 0 && !construct(blocks, block, ends)) {
                return false;
            }
        }
        for (const SpirvBlock &block : blocks.all()) {
            emit(blocks, block, ends[block.label]);
        }
        copy(at, at + length(at));
        at += length(at);
        return true;
    }

    // Decides whether a construct stays one. It does not if constants decide which way it goes and nothing leaves it
    // from within another construct.
    static bool construct(SpirvBlocks &blocks, SpirvBlock &block, std::vector<bool> &ends) {
        bool stays = block.only == 0;
        if (blocks.is_loop(block)) {
            stays = block.repeats;
            if (!stays && (block.only == 0 || !is_straight(blocks, block, blocks.next(block)))) {
                return false; // a loop of one round would have to become a construct of another kind
            }
        } else if (blocks.op(block.last) == spv::OpSwitch) {
            stays = stays || !is_straight(blocks, block);
        }
        if (stays) {
            ends[blocks.after(block)] = true;
        } else {
            block.merge = 0;
        }
        return true;
    }

    // Whether a construct goes to its end without leaving another one within it on the way, and likewise to `next`,
    // where a loop would begin its next round, unless that cannot be reached.
    static bool is_straight(SpirvBlocks &blocks, const SpirvBlock &block, uint32_t next = 0) {
        const uint32_t after = blocks.after(block);
        if (blocks.labelled(after).ways_in > 1 || (next != 0 && blocks.labelled(next).ways_in > 1)) {
            return false;
        }
        bool passed = next == 0 || !blocks.is_reached(next);
        uint32_t label = block.only;
        while (label != 0 && label != after) {
            passed = passed || label == next;
            label = successor(blocks, blocks.labelled(label));
        }
        return passed && (label == after || !blocks.is_reached(after));
    }

    // The label of the block where control goes after a block, or after the construct that begins with it; 0: nowhere.
    static uint32_t successor(const SpirvBlocks &blocks, const SpirvBlock &block) {
        if (block.ways_in == 0) {
            return 0;
        }
        if (block.only != 0 && !blocks.is_loop(block)) {
            return block.only;
        }
        return block.merge != 0 ? blocks.after(block) : 0;
    }

    void emit(SpirvBlocks &blocks, const SpirvBlock &block, bool ends) {
        if (!blocks.is_reached(block.label)) {
            drop(blocks, block);
            if (ends) {
                put(spv::OpLabel, {block.label});
                put(spv::OpUnreachable, {});
            }
            return;
        }
        put(spv::OpLabel, {block.label});
        for (size_t at = block.begin; at < block.last; at += length(at)) {
            const bool is_merge = op(at) == spv::OpSelectionMerge || op(at) == spv::OpLoopMerge;
            if (op(at) == spv::OpPhi) {
                phi(blocks, block, at);
            } else if (!is_merge || at == block.merge) {
                copy(at, at + length(at));
            }
        }
        if (block.only == 0) {
            copy(block.last, block.end);
        } else if (block.merge != 0 && !blocks.is_loop(block)) {
            put(spv::OpSwitch, {words_[block.last + 1], block.only});
        } else {
            put(spv::OpBranch, {block.only});
        }
    }

    void drop(const SpirvBlocks &blocks, const SpirvBlock &block) {
        for (size_t at = block.begin; at < block.end; at += length(at)) {
            dropped_[blocks.result(at)] = true;
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

    const uint32_t *words_;
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
