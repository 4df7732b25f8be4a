// Types, constants and decorations of a SPIR-V module, as far as the sizes of its variables follow from them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kpx {

constexpr uint32_t kSpirvHeaderWords = 5; // of a module, before its first instruction

struct SpirvType {
    uint32_t op = 0;            // the instruction that declares it; 0: unknown
    uint32_t storage_class = 0; // of a pointer
    uint32_t inner = 0;         // the type that it points to, or consists of
    uint32_t count = 0;         // of the columns or components
    bool read_only = false;     // a struct without members that may be written
    // The bytes without padding, as in shared memory, and from the beginning to the end of the last member by the
    // offsets and strides of push constants. Absent if they are not known.
    std::optional<uint64_t> packed = {}, laid_out = {};
};

class SpirvTypes {
  public:
    // spec: the values of specialization constants 0, 1, …
    SpirvTypes(const uint32_t *spec, uint32_t n_spec) : spec_(spec), n_spec_(n_spec) {}

    // Takes note of an instruction; words[0] is its first word, count its length. Throws KPX_INVALID if a
    // specialization constant that is given is not one of 32 bits, or a type is declared twice.
    void instruction(const uint32_t *words, uint32_t count);

    const SpirvType &type(uint32_t id) const;
    std::optional<uint32_t> value(uint32_t id) const; // of a constant of 32 bits
    bool has(uint32_t id, uint32_t decoration) const { return literal(id, decoration).has_value(); }
    std::optional<uint32_t> literal(uint32_t id, uint32_t decoration) const; // of a decoration, 0 if it has none
    // Computes what an instruction of a function returns, if it is an operation of constants. words[1] is its type,
    // words[2] its result.
    void compute(const uint32_t *words, uint32_t count);
    void set_value(uint32_t id, uint32_t value) { values_[id] = value; }
    // The number of specialization constants, of which some may be missing.
    uint32_t spec_constants() const { return spec_constants_; }

  private:
    void decorate(const uint32_t *words, uint32_t count);
    void declare(const uint32_t *words, uint32_t count);
    void array(SpirvType &made, const uint32_t *words);
    void structure(SpirvType &made, const uint32_t *words, uint32_t count);
    std::optional<uint64_t> end_of_member(uint32_t structure, uint32_t member, uint32_t type) const;
    std::optional<uint64_t> matrix_bytes(uint32_t structure, uint32_t member, const SpirvType &matrix) const;
    std::optional<uint32_t> member_literal(uint32_t structure, uint32_t member, uint32_t decoration) const;
    void constant(const uint32_t *words, uint32_t count);
    std::optional<uint32_t> given(const uint32_t *words); // a specialization constant's value
    void operation(uint32_t type, uint32_t result, uint32_t op, const uint32_t *operands, uint32_t n);
    std::optional<uint32_t> extracted(const uint32_t *operands, uint32_t count) const;

    const uint32_t *spec_;
    uint32_t n_spec_;
    uint32_t spec_constants_ = 0;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> decorations_;                   // by id and decoration
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> member_decorations_; // by struct, member, decoration
    std::map<uint32_t, SpirvType> types_;
    std::map<uint32_t, uint64_t> before_last_; // bytes of an array that has strides, without its last element
    std::unordered_map<uint32_t, uint32_t> values_;
    std::map<uint32_t, std::vector<uint32_t>> parts_; // of composite constants
};

} // namespace kpx
