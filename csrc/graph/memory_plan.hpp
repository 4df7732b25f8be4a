// Where the tensors of a region are in memory. Those that only the region sees,
// and that it writes before it reads, are put into arenas. Two of them share
// memory only if a barrier already separates the last use of one from the first
// use of the other, so sharing adds no barriers.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/arenas.hpp"
#include "graph/graph.hpp"
#include "record/program.hpp"

namespace kpx {

class Device;

class MemoryPlan {
  public:
    enum class Kind {
        external, // a caller holds it
        kept,     // no caller holds it, but it carries data into the region or between replays
        planned,
        awaited, // planned, with memory that nothing else uses (overlap.hpp)
        mapped,  // the host sees it
    };
    struct Tensor {
        bool in_arena() const { return kind == Kind::planned || kind == Kind::awaited; }

        const Buffer *buffer; // identifies it until allocate()
        Kind kind;
        uint64_t bytes;
        uint32_t first, last;             // dispatches that use it
        uint32_t first_phase, last_phase; // the number of barriers before these dispatches
        uint32_t arena;
        uint64_t offset; // in the arena
    };

    // Decides, and takes planned tensors out of the program: their memory is freed
    // with the graph. share false: every tensor keeps its own.
    void decide(Program &program, const Graph &graph, uint64_t largest_arena, bool share);
    // Takes the arenas from those, makes the ones that overlapping dispatches need, allocates memory for other tensors
    // that have none yet, and puts all of it into the program.
    void allocate(Device &device, Program &program, Arenas &arenas);

    const std::vector<Tensor> &tensors() const { return tensors_; }
    // The tensor of the program's use of that index.
    uint32_t tensor_of(uint32_t use) const { return of_use_[use]; }
    // The tensor of a buffer; -1 if no dispatch uses it. Valid before allocate().
    int64_t index_of(const Buffer *buffer) const;
    // Where it starts in the Vulkan buffer that the use names.
    uint64_t start_of(uint32_t tensor, const Use &use) const;
    const std::vector<uint64_t> &arenas() const { return arena_bytes_; }
    // Those that other regions may have, too.
    const std::vector<std::shared_ptr<Arena>> &shared() const { return shared_; }
    uint64_t unplanned() const; // bytes of the region's own tensors without sharing
    uint64_t planned() const;   // bytes that they take

  private:
    void list(Program &program, const Graph &graph, bool share);
    void place(Kind kind, uint64_t largest_arena);
    bool place_in(uint32_t arena, uint32_t tensor, uint64_t largest_arena);

    std::vector<Tensor> tensors_;
    std::unordered_map<const Buffer *, uint32_t> known_; // until allocate()
    std::vector<uint32_t> of_use_;
    std::vector<std::vector<uint32_t>> placed_; // per arena, by offset
    std::vector<uint64_t> arena_bytes_;
    size_t first_awaited_ = 0; // arena, after those of planned tensors
    std::vector<std::shared_ptr<Buffer>> arenas_;
    std::vector<std::shared_ptr<Arena>> shared_; // those before first_awaited_
};

} // namespace kpx
