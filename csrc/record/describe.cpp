// A region as JSON. Names are of ops, passes and kernels: none needs escaping.
#include "abi/error.hpp"
#include "ops/op_table.hpp"
#include "record/region.hpp"
#include "runtime/memory.hpp"

namespace kpx {

namespace {

const char *op_name(int32_t op) {
    return op == OpNode::kOpaque ? "custom" : op_row(op).name.data();
}

const char *kind_name(MemoryPlan::Kind kind) {
    switch (kind) {
    case MemoryPlan::Kind::external:
        return "external";
    case MemoryPlan::Kind::kept:
        return "kept";
    case MemoryPlan::Kind::planned:
        return "planned";
    default:
        return "mapped";
    }
}

using ull = unsigned long long;

// Joins the items of a list with commas, one per line.
class List {
  public:
    List(std::string &out, const char *name) : out_(out) { out_ += format(",\n\"%s\":[", name); }
    ~List() { out_ += "]"; }
    void add(const std::string &item) {
        out_ += first_ ? "\n" : ",\n";
        out_ += item;
        first_ = false;
    }

  private:
    std::string &out_;
    bool first_ = true;
};

// [{"tensor":0,"offset":0,"bytes":16},…] of the uses with that access.
std::string uses_json(const MemoryPlan &memory, const Program &program, const Node &node, kpx_access access) {
    std::string out = "[";
    for (uint32_t i = 0; i < node.layout.bindings; i++) {
        const Use &use = program.uses(node)[i];
        if (!(use.access & access)) {
            continue;
        }
        const uint32_t tensor = memory.tensor_of(node.first_use + i);
        out += format("%s{\"tensor\":%u,\"offset\":%llu,\"bytes\":%llu}", out.size() > 1 ? "," : "", tensor,
                      ull(use.offset - memory.start_of(tensor, use)), ull(use.bytes));
    }
    return out + "]";
}

std::string tensor_json(const MemoryPlan::Tensor &tensor) {
    std::string out = format("{\"kind\":\"%s\",\"bytes\":%llu,\"first\":%u,\"last\":%u", kind_name(tensor.kind),
                             ull(tensor.bytes), tensor.first, tensor.last);
    if (tensor.kind == MemoryPlan::Kind::planned) {
        out += format(",\"arena\":%u,\"offset\":%llu", tensor.arena, ull(tensor.offset));
    }
    return out + "}";
}

} // namespace

std::string Region::describe() const {
    const kpx_region_stats counts = stats();
    std::string out =
        format("{\"ops_appended\":%llu,\"ops_recorded\":%llu,\"dispatch_count\":%llu,\"barrier_count\":%llu,"
               "\"transient_bytes_unplanned\":%llu,\"transient_bytes\":%llu",
               ull(counts.ops), ull(counts.fused_ops), ull(counts.dispatches), ull(counts.barriers),
               ull(counts.transient_bytes_unplanned), ull(counts.transient_bytes));
    {
        List ops(out, "ops"); // each with the number of its dispatches, which follow each other
        for (const Op &op : ops_) {
            std::string fused;
            for (int32_t from : op.fused) {
                fused += format("%s\"%s\"", fused.empty() ? "" : ",", op_name(from));
            }
            ops.add(format("{\"op\":\"%s\",\"pass\":\"%s\",\"fused\":[%s],\"dispatches\":%u}", op_name(op.op),
                           op.pass == nullptr ? "" : op.pass, fused.c_str(), op.dispatches));
        }
    }
    {
        List dispatches(out, "dispatches");
        const Program &program = program_;
        for (const Node &node : program.nodes()) {
            dispatches.add(format("{\"kernel\":\"%s\",\"grid\":[%u,%u,%u],\"barrier\":%s,\"reads\":", node.kernel,
                                  node.grid.x, node.grid.y, node.grid.z, node.barrier ? "true" : "false") +
                           uses_json(memory_, program, node, KPX_READ) +
                           ",\"writes\":" + uses_json(memory_, program, node, KPX_WRITE) + "}");
        }
    }
    {
        List tensors(out, "tensors"); // first, last: dispatches that use it
        for (const MemoryPlan::Tensor &tensor : memory_.tensors()) {
            tensors.add(tensor_json(tensor));
        }
    }
    return out + "}\n";
}

} // namespace kpx
