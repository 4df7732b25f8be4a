#include "graph/memory_plan.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/device.hpp"

namespace kpx {

void MemoryPlan::decide(Program &program, const Graph &graph, uint64_t largest_arena, bool share) {
    for (Use &use : program.all_uses()) { // some may have been placed since their use was recorded
        use.resolve();
    }
    list(program, graph, share);
    place(Kind::planned, largest_arena);
    first_awaited_ = placed_.size();
    place(Kind::awaited, largest_arena);
    for (size_t i = 0; i < of_use_.size(); i++) {
        const Tensor &tensor = tensors_[of_use_[i]];
        if (tensor.in_arena()) {
            Use &use = program.all_uses()[i];
            use.offset = use.offset - use.storage->offset() + tensor.offset;
            use.storage = nullptr;
            use.owner.reset();
        }
    }
}

// All tensors, when they are used, and which of them can be planned.
void MemoryPlan::list(Program &program, const Graph &graph, bool share) {
    program.plan();
    of_use_.resize(program.all_uses().size());
    uint32_t phase = 0, dispatch = 0;
    for (const Node &node : program.nodes()) {
        phase += node.barrier;
        for (uint32_t i = 0; i < node.layout.bindings; i++) {
            const Buffer *buffer = program.uses(node)[i].storage;
            const auto found = known_.emplace(buffer, uint32_t(tensors_.size()));
            if (found.second) {
                const Kind kind = buffer->mapped() != nullptr              ? Kind::mapped
                                  : !buffer->closed()                      ? Kind::external
                                  : share && graph.starts_written(*buffer) ? Kind::planned
                                                                           : Kind::kept;
                tensors_.push_back({buffer, kind, buffer->capacity(), dispatch, dispatch, phase, phase, 0, 0});
            }
            Tensor &tensor = tensors_[found.first->second];
            tensor.last = dispatch;
            tensor.last_phase = phase;
            if (program.uses(node)[i].awaited) {
                tensor.kind = Kind::awaited;
            }
            of_use_[node.first_use + i] = found.first->second;
        }
        dispatch++;
    }
}

// The largest first, each at the lowest offset that is free during its phases.
void MemoryPlan::place(Kind kind, uint64_t largest_arena) {
    const auto first = uint32_t(placed_.size());
    std::vector<uint32_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return tensors_[a].bytes > tensors_[b].bytes; });
    for (uint32_t tensor : order) {
        if (tensors_[tensor].kind != kind) {
            continue;
        }
        uint32_t arena = first;
        while (!place_in(arena, tensor, largest_arena)) {
            arena++;
        }
    }
}

bool MemoryPlan::place_in(uint32_t arena, uint32_t index, uint64_t largest_arena) {
    if (arena == placed_.size()) {
        placed_.emplace_back();
        arena_bytes_.push_back(0);
    }
    Tensor &tensor = tensors_[index];
    std::vector<uint32_t> &placed = placed_[arena];
    uint64_t offset = 0;
    for (uint32_t other_index : placed) {
        const Tensor &other = tensors_[other_index];
        const bool apart = other.last_phase < tensor.first_phase || tensor.last_phase < other.first_phase;
        if (apart && tensor.kind == Kind::planned) {
            continue;
        }
        if (offset + tensor.bytes <= other.offset) {
            break;
        }
        offset = std::max(offset, other.offset + other.bytes);
    }
    if (offset + tensor.bytes > largest_arena && !placed.empty()) {
        return false;
    }
    tensor.arena = arena;
    tensor.offset = offset;
    const auto lower = [&](uint32_t other, uint64_t at) { return tensors_[other].offset < at; };
    placed.insert(std::lower_bound(placed.begin(), placed.end(), offset, lower), index);
    arena_bytes_[arena] = std::max(arena_bytes_[arena], offset + tensor.bytes);
    return true;
}

int64_t MemoryPlan::index_of(const Buffer *buffer) const {
    const auto found = known_.find(buffer);
    return found == known_.end() ? -1 : int64_t(found->second);
}

void MemoryPlan::allocate(Device &device, Program &program, Arenas &arenas) {
    known_.clear(); // the buffers of planned tensors are gone
    for (size_t i = 0; i < first_awaited_; i++) {
        shared_.push_back(or_when_done(device, [&] { return arenas.take(device.memory(), arena_bytes_[i], shared_); }));
        arenas_.push_back(shared_.back()->buffer);
    }
    for (size_t i = first_awaited_; i < arena_bytes_.size(); i++) {
        arenas_.push_back(or_when_done(device, [&] { return device.memory().allocate(arena_bytes_[i]); }));
        const std::shared_ptr<Buffer> &arena = arenas_.back();
        arena->close();
        program.begin_missing({arena->handle(), arena->offset(), arena_bytes_[i], KPX_WRITE, arena, arena.get()});
    }
    for (size_t i = 0; i < of_use_.size(); i++) {
        const Tensor &tensor = tensors_[of_use_[i]];
        Use &use = program.all_uses()[i];
        if (tensor.in_arena()) {
            const std::shared_ptr<Buffer> &arena = arenas_[tensor.arena];
            use.buffer = arena->handle();
            use.offset += arena->offset();
            use.owner = arena;
            use.storage = arena.get();
        } else if (use.storage != nullptr) {
            or_when_done(device, [&] { device.memory().place(*use.storage); });
            use.resolve();
        }
    }
}

uint64_t MemoryPlan::start_of(uint32_t tensor, const Use &use) const {
    return use.storage->offset() + (tensors_[tensor].in_arena() ? tensors_[tensor].offset : 0);
}

uint64_t MemoryPlan::unplanned() const {
    uint64_t sum = 0;
    for (const Tensor &tensor : tensors_) {
        sum += tensor.in_arena() || tensor.kind == Kind::kept ? tensor.bytes : 0;
    }
    return sum;
}

uint64_t MemoryPlan::planned() const {
    uint64_t sum = std::accumulate(arena_bytes_.begin(), arena_bytes_.end(), uint64_t(0));
    for (const Tensor &tensor : tensors_) {
        sum += tensor.kind == Kind::kept ? tensor.bytes : 0;
    }
    return sum;
}

} // namespace kpx
