#include "runtime/spirv_types.hpp"

#include <algorithm>

#include <spirv/unified1/spirv.hpp>

#include "abi/error.hpp"

namespace kpx {

namespace {

// Sizes end here, so that the product of two fits.
constexpr uint64_t kMostTypeBytes = UINT32_MAX;

std::optional<uint64_t> scaled_size(std::optional<uint64_t> bytes, std::optional<uint64_t> n) {
    if (!bytes || !n) {
        return {};
    }
    return std::min(std::min(*bytes, kMostTypeBytes) * std::min(*n, kMostTypeBytes), kMostTypeBytes);
}

std::optional<uint64_t> summed_size(std::optional<uint64_t> a, std::optional<uint64_t> b) {
    if (!a || !b) {
        return {};
    }
    return std::min(*a + *b, kMostTypeBytes);
}

std::optional<uint32_t> divided(uint32_t op, uint32_t a, uint32_t b) {
    const auto x = int64_t(int32_t(a)), y = int64_t(int32_t(b));
    if (b == 0) {
        return {};
    }
    switch (op) {
    case spv::OpUDiv:
        return a / b;
    case spv::OpUMod:
        return a % b;
    case spv::OpSDiv:
        return uint32_t(x / y);
    case spv::OpSRem:
        return uint32_t(x % y);
    case spv::OpSMod:
        return uint32_t((x % y + y) % y);
    }
    return {};
}

std::optional<uint32_t> compared(uint32_t op, uint32_t a, uint32_t b) {
    const auto x = int32_t(a), y = int32_t(b);
    switch (op) {
    case spv::OpIEqual:
    case spv::OpLogicalEqual:
        return a == b;
    case spv::OpINotEqual:
    case spv::OpLogicalNotEqual:
        return a != b;
    case spv::OpUGreaterThan:
        return a > b;
    case spv::OpUGreaterThanEqual:
        return a >= b;
    case spv::OpULessThan:
        return a < b;
    case spv::OpULessThanEqual:
        return a <= b;
    case spv::OpSGreaterThan:
        return x > y;
    case spv::OpSGreaterThanEqual:
        return x >= y;
    case spv::OpSLessThan:
        return x < y;
    case spv::OpSLessThanEqual:
        return x <= y;
    }
    return {};
}

// An operation of two constants, as far as the sizes of arrays and control flow are likely to need it.
std::optional<uint32_t> combined(uint32_t op, uint32_t a, uint32_t b) {
    switch (op) {
    case spv::OpIAdd:
        return a + b;
    case spv::OpISub:
        return a - b;
    case spv::OpIMul:
        return a * b;
    case spv::OpBitwiseAnd:
    case spv::OpLogicalAnd:
        return a & b;
    case spv::OpBitwiseOr:
    case spv::OpLogicalOr:
        return a | b;
    case spv::OpBitwiseXor:
        return a ^ b;
    case spv::OpShiftLeftLogical:
        return b < 32 ? std::optional(a << b) : std::nullopt;
    case spv::OpShiftRightLogical:
        return b < 32 ? std::optional(a >> b) : std::nullopt;
    case spv::OpShiftRightArithmetic:
        return b < 32 ? std::optional(uint32_t(int32_t(a) >> b)) : std::nullopt;
    }
    const auto quotient = divided(op, a, b);
    return quotient ? quotient : compared(op, a, b);
}

// An operation of two values that one of them decides.
std::optional<uint32_t> decided(uint32_t op, uint32_t known) {
    const bool is_and = op == spv::OpLogicalAnd, is_or = op == spv::OpLogicalOr;
    return (is_and && known == 0) || (is_or && known != 0) ? std::optional(known) : std::nullopt;
}

bool is_known_type(uint32_t op) {
    switch (op) {
    case spv::OpTypeBool:
    case spv::OpTypeInt:
    case spv::OpTypeFloat:
    case spv::OpTypeVector:
    case spv::OpTypeMatrix:
    case spv::OpTypeArray:
    case spv::OpTypeRuntimeArray:
    case spv::OpTypeStruct:
    case spv::OpTypePointer:
        return true;
    }
    return false;
}

} // namespace

const SpirvType &SpirvTypes::type(uint32_t id) const {
    static const SpirvType unknown;
    const auto found = types_.find(id);
    return found == types_.end() ? unknown : found->second;
}

std::optional<uint32_t> SpirvTypes::value(uint32_t id) const {
    const auto found = values_.find(id);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint32_t> SpirvTypes::literal(uint32_t id, uint32_t decoration) const {
    const auto found = decorations_.find({id, decoration});
    return found == decorations_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint32_t> SpirvTypes::member_literal(uint32_t structure, uint32_t member, uint32_t decoration) const {
    const auto found = member_decorations_.find({structure, member, decoration});
    return found == member_decorations_.end() ? std::nullopt : std::optional(found->second);
}

// In a module, decorations come first, then types and constants in the order of their use.
void SpirvTypes::instruction(const uint32_t *words, uint32_t count) {
    if (count < 2) {
        return;
    }
    switch (words[0] & spv::OpCodeMask) {
    case spv::OpDecorate:
    case spv::OpMemberDecorate:
        decorate(words, count);
        break;
    case spv::OpConstantTrue:
    case spv::OpConstantFalse:
    case spv::OpSpecConstantTrue:
    case spv::OpSpecConstantFalse:
    case spv::OpConstant:
    case spv::OpSpecConstant:
        constant(words, count);
        break;
    case spv::OpConstantComposite:
    case spv::OpSpecConstantComposite:
        if (count >= 3) {
            parts_[words[2]].assign(words + 3, words + count);
        }
        break;
    case spv::OpSpecConstantOp:
        if (count > 4) {
            operation(words[1], words[2], words[3], words + 4, count - 4);
        }
        break;
    default:
        declare(words, count);
    }
}

void SpirvTypes::decorate(const uint32_t *words, uint32_t count) {
    const bool member = (words[0] & spv::OpCodeMask) == spv::OpMemberDecorate;
    if (member && count >= 4) {
        member_decorations_[{words[1], words[2], words[3]}] = count > 4 ? words[4] : 0;
    } else if (!member && count >= 3) {
        decorations_[{words[1], words[2]}] = count > 3 ? words[3] : 0;
    }
}

void SpirvTypes::declare(const uint32_t *words, uint32_t count) {
    SpirvType made;
    made.op = words[0] & spv::OpCodeMask;
    if (!is_known_type(made.op)) {
        return;
    }
    if (words[1] == 0 || types_.count(words[1]) != 0) { // types would not be made of earlier ones only
        fail(KPX_INVALID, "the SPIR-V declares the type {} again, or a type 0", words[1]);
    }
    switch (made.op) {
    case spv::OpTypeBool:
        made.packed = made.laid_out = 4;
        break;
    case spv::OpTypeInt:
    case spv::OpTypeFloat:
        if (count >= 3) {
            made.packed = made.laid_out = words[2] / 8;
        }
        break;
    case spv::OpTypeVector:
    case spv::OpTypeMatrix:
    case spv::OpTypeArray:
        if (count >= 4) {
            array(made, words);
        }
        break;
    case spv::OpTypeRuntimeArray:
        break;
    case spv::OpTypeStruct:
        structure(made, words, count);
        break;
    case spv::OpTypePointer:
        if (count >= 4) {
            made.storage_class = words[2];
            made.inner = types_.count(words[3]) != 0 ? words[3] : 0;
        }
        break;
    }
    types_.emplace(words[1], made);
}

// Vectors, matrices and arrays.
void SpirvTypes::array(SpirvType &made, const uint32_t *words) {
    if (types_.count(words[2]) == 0) {
        return; // so no type contains itself
    }
    made.inner = words[2];
    made.count = words[3];
    const SpirvType &element = type(made.inner);
    if (made.op != spv::OpTypeArray) {
        made.packed = made.laid_out = scaled_size(element.packed, made.count);
        return;
    }
    const auto n = value(words[3]);
    made.packed = scaled_size(element.packed, n);
    const auto before = scaled_size(literal(words[1], spv::DecorationArrayStride), n && *n > 0 ? *n - 1 : 0);
    if (n && before) {
        before_last_[words[1]] = *before;
        made.laid_out = summed_size(before, element.laid_out);
    }
}

void SpirvTypes::structure(SpirvType &made, const uint32_t *words, uint32_t count) {
    made.packed = made.laid_out = 0;
    made.read_only = true;
    for (uint32_t i = 0; i + 2 < count; i++) {
        const auto end = end_of_member(words[1], i, words[i + 2]);
        made.packed = summed_size(made.packed, type(words[i + 2]).packed);
        made.laid_out = made.laid_out && end ? std::optional(std::max(*made.laid_out, *end)) : std::nullopt;
        made.read_only = made.read_only && member_literal(words[1], i, spv::DecorationNonWritable).has_value();
    }
}

std::optional<uint64_t> SpirvTypes::end_of_member(uint32_t structure, uint32_t member, uint32_t id) const {
    std::optional<uint64_t> begin = member_literal(structure, member, spv::DecorationOffset);
    const SpirvType *last = &type(id); // the last element of arrays
    for (auto at = before_last_.find(id); at != before_last_.end(); at = before_last_.find(id)) {
        begin = summed_size(begin, at->second);
        id = last->inner;
        last = &type(id);
    }
    return summed_size(begin, last->op == spv::OpTypeMatrix ? matrix_bytes(structure, member, *last) : last->laid_out);
}

std::optional<uint64_t> SpirvTypes::matrix_bytes(uint32_t structure, uint32_t member, const SpirvType &matrix) const {
    const SpirvType &column = type(matrix.inner);
    const bool by_rows = member_literal(structure, member, spv::DecorationRowMajor).has_value();
    const uint64_t vectors = by_rows ? column.count : matrix.count, components = by_rows ? matrix.count : column.count;
    return summed_size(
        scaled_size(member_literal(structure, member, spv::DecorationMatrixStride), std::max<uint64_t>(vectors, 1) - 1),
        scaled_size(type(column.inner).packed, components));
}

void SpirvTypes::constant(const uint32_t *words, uint32_t count) {
    if (count < 3) {
        return;
    }
    const uint32_t op = words[0] & spv::OpCodeMask;
    const bool truth = op == spv::OpConstantTrue || op == spv::OpSpecConstantTrue;
    if (const auto replaced = given(words)) {
        values_[words[2]] = type(words[1]).op == spv::OpTypeBool ? *replaced != 0 : *replaced;
    } else if (type(words[1]).packed == 4) { // the operations on narrower ones differ
        values_[words[2]] = count == 4 ? words[3] : truth;
    }
}

std::optional<uint32_t> SpirvTypes::given(const uint32_t *words) {
    const auto id = literal(words[2], spv::DecorationSpecId);
    if (!id) {
        return {};
    }
    spec_constants_ = std::max(spec_constants_, *id == UINT32_MAX ? *id : *id + 1);
    if (*id >= n_spec_) {
        return {};
    }
    if (type(words[1]).packed != 4) {
        fail(KPX_INVALID, "specialization constant {} has {} bits; only those of 32 bits and booleans can be given",
             *id, 8 * type(words[1]).packed.value_or(0));
    }
    return spec_[*id];
}

void SpirvTypes::compute(const uint32_t *words, uint32_t count) {
    if (count > 3) {
        operation(words[1], words[2], words[0] & spv::OpCodeMask, words + 3, count - 3);
    }
}

// An operation of constants. Its result is unknown if one that it depends on is, or if the operation is not among those
// above.
void SpirvTypes::operation(uint32_t type_id, uint32_t result_id, uint32_t op, const uint32_t *operands, uint32_t n) {
    if (type(type_id).packed != 4) {
        return;
    }
    const auto a = value(operands[0]), b = n > 1 ? value(operands[1]) : std::nullopt;
    std::optional<uint32_t> result;
    if (op == spv::OpCompositeExtract) {
        result = extracted(operands, n);
    } else if (op == spv::OpSelect && n == 3 && a) {
        result = value(operands[*a != 0 ? 1 : 2]);
    } else if (n == 1 && a && type(type_id).op != spv::OpTypeFloat) {
        result = op == spv::OpNot          ? std::optional(~*a)
                 : op == spv::OpSNegate    ? std::optional(0 - *a)
                 : op == spv::OpLogicalNot ? std::optional(uint32_t(*a == 0))
                                           : std::nullopt;
    } else if (n == 2 && a && b) {
        result = combined(op, *a, *b);
    } else if (n == 2 && (a || b)) {
        result = decided(op, a ? *a : *b);
    }
    if (result) {
        values_[result_id] = *result;
    }
}

std::optional<uint32_t> SpirvTypes::extracted(const uint32_t *operands, uint32_t count) const {
    const auto whole = parts_.find(operands[0]);
    if (count != 2 || whole == parts_.end() || operands[1] >= whole->second.size()) {
        return {};
    }
    return value(whole->second[operands[1]]);
}

} // namespace kpx
