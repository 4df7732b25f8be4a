// Where the tensors of a region live. Those that only the region sees, and that
// it writes before it reads, are put into arenas: two of them share memory if a
// barrier lies between the last use of one and the first of the other anyway, so
// that sharing costs no barrier.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/graph.hpp"
#include "record/program.hpp"

namespace kpx {

class Device;

class MemoryPlan {
  public:
    enum class Kind {
        external, // a caller holds it
        kept,     // nobody else does, but it carries data into the region or between replays
        planned,
        mapped, // the host sees it
    };
    struct Tensor {
        const Buffer *buffer; // to tell it by, until it is planned
        Kind kind;
        uint64_t bytes;
        uint32_t first, last;             // dispatches that use it
        uint32_t first_phase, last_phase; // and how many barriers come before them
        uint32_t arena;
        uint64_t offset; // in the arena
    };

    // Decides, and takes planned tensors out of the program: their memory is free
    // once the graph is gone. share false: every tensor keeps its own.
    void decide(Program &program, const Graph &graph, uint64_t largest_arena, bool share);
    // Takes the arenas and puts them into the program.
    void allocate(Device &device, Program &program);

    const std::vector<Tensor> &tensors() const { return tensors_; }
    // The tensor that the program's use of that index is of.
    uint32_t tensor_of(uint32_t use) const { return of_use_[use]; }
    // The tensor that the buffer is, before allocate(); -1 if no dispatch uses it.
    int64_t index_of(const Buffer *buffer) const;
    // Where it starts in the Vulkan buffer that the use names.
    uint64_t start_of(uint32_t tensor, const Use &use) const;
    const std::vector<uint64_t> &arenas() const { return arena_bytes_; }
    uint64_t unplanned() const; // bytes of the region's own tensors, each apart
    uint64_t planned() const;   // as they are

  private:
    void list(Program &program, const Graph &graph, bool share);
    void place(uint64_t largest_arena);
    bool place_in(uint32_t arena, uint32_t tensor, uint64_t largest_arena);

    std::vector<Tensor> tensors_;
    std::unordered_map<const Buffer *, uint32_t> known_; // until allocate()
    std::vector<uint32_t> of_use_;
    std::vector<std::vector<uint32_t>> placed_; // per arena, by offset
    std::vector<uint64_t> arena_bytes_;
    std::vector<std::shared_ptr<Buffer>> arenas_;
};

} // namespace kpx
