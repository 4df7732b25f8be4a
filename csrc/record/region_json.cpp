#include "record/region_json.hpp"

#include "abi/error.hpp"
#include "ops/lowering_util.hpp"
#include "ops/op_table.hpp"
#include "record/json_writer.hpp"
#include "runtime/memory.hpp"

namespace kpx {

namespace {

std::string_view op_name(int32_t op) {
    return op == OpNode::kOpaque ? "custom" : op_row(op).name;
}

const char *kind_name(MemoryPlan::Kind kind) {
    switch (kind) {
    case MemoryPlan::Kind::external:
        return "external";
    case MemoryPlan::Kind::kept:
        return "kept";
    case MemoryPlan::Kind::planned:
        return "planned";
    case MemoryPlan::Kind::awaited:
        return "awaited";
    default:
        return "mapped";
    }
}

const char *access_name(kpx_access access) {
    switch (access) {
    case KPX_READ:
        return "read";
    case KPX_WRITE:
        return "write";
    default:
        return "read_write";
    }
}

void write_operand(JsonWriter &json, const Region::Operand &operand) {
    json.object([&] {
        json.key("index").value(operand.index);
        json.key("tensor").value(operand.tensor);
        json.key("access").value(access_name(operand.access));
        json.key("dtype").value(dtype_name(operand.dtype));
        json.key("shape").values(operand.shape.data(), operand.rank);
        json.key("strides").values(operand.strides.data(), operand.rank);
        json.key("offset").value(operand.offset);
    });
}

void write_op(JsonWriter &json, const Region::Op &op) {
    json.object([&] {
        json.key("name").value(op_name(op.op));
        json.key("pass").value(op.pass == nullptr ? "" : op.pass);
        json.key("fused_from").array([&] {
            for (int32_t from : op.fused) {
                json.value(op_name(from));
            }
        });
        json.key("operands").array([&] {
            for (const Region::Operand &operand : op.operands) {
                write_operand(json, operand);
            }
        });
        json.key("dispatches").value(op.dispatches);
    });
}

void write_tensor(JsonWriter &json, const MemoryPlan::Tensor &tensor) {
    json.object([&] {
        json.key("kind").value(kind_name(tensor.kind));
        json.key("bytes").value(tensor.bytes);
        json.key("first").value(tensor.first);
        json.key("last").value(tensor.last);
        json.key("arena").value(tensor.in_arena() ? tensor.arena : 0);
        json.key("offset").value(tensor.in_arena() ? tensor.offset : 0);
    });
}

// The uses of a dispatch with that access.
void write_uses(JsonWriter &json, const Region &region, const Node &node, kpx_access access) {
    json.array([&] {
        for (uint32_t i = 0; i < node.layout.bindings; i++) {
            const Use &use = region.program().uses(node)[i];
            if (!(use.access & access)) {
                continue;
            }
            const uint32_t tensor = region.memory().tensor_of(node.first_use + i);
            json.object([&] {
                json.key("tensor").value(tensor);
                json.key("offset").value(use.offset - region.memory().start_of(tensor, use));
                json.key("bytes").value(use.bytes);
            });
        }
    });
}

void write_dispatches(JsonWriter &json, const Region &region) {
    const std::vector<Region::Op> &ops = region.ops();
    size_t op = 0;
    uint32_t left = ops.empty() ? 0 : ops[0].dispatches; // of that op
    for (const Node &node : region.program().nodes()) {
        while (left == 0 && op + 1 < ops.size()) {
            left = ops[++op].dispatches;
        }
        left--;
        json.object([&] {
            json.key("op").value(op);
            json.key("kernel").value(node.kernel);
            json.key("grid").array([&] {
                json.value(node.grid.x);
                json.value(node.grid.y);
                json.value(node.grid.z);
            });
            json.key("barrier").value(node.barrier);
            json.key("overlaps").value(region.program().overlaps(node));
            json.key("reads");
            write_uses(json, region, node, KPX_READ);
            json.key("writes");
            write_uses(json, region, node, KPX_WRITE);
        });
    }
}

void write_memory(JsonWriter &json, const MemoryPlan &memory) {
    json.object([&] {
        json.key("transient_bytes").value(memory.planned());
        json.key("transient_bytes_unplanned").value(memory.unplanned());
        json.key("arenas").values(memory.arenas().data(), memory.arenas().size());
        json.key("tensors").array([&] {
            for (const MemoryPlan::Tensor &tensor : memory.tensors()) {
                write_tensor(json, tensor);
            }
        });
    });
}

} // namespace

std::string as_json(const Region &region) {
    JsonWriter json;
    json.object([&] {
        json.key("captured_ops").value(region.captured_ops());
        json.key("ops").array([&] {
            for (const Region::Op &op : region.ops()) {
                write_op(json, op);
            }
        });
        json.key("dispatches").array([&] { write_dispatches(json, region); });
        json.key("memory");
        write_memory(json, region.memory());
    });
    return json.text();
}

} // namespace kpx
