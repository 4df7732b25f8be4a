// Codes taken from the words of a row: one anywhere, or four of fewer than 8 bits as bytes. Before the include: BITS.
#ifndef CODE_WORDS_GLSL
#define CODE_WORDS_GLSL

// A code at any bit of a row whose words start at `from`.
#define CODE_AT(name, from, bit) \
    (((name##_1.data[(from) + ((bit) >> 5)] >> ((bit) & 31u)) | \
      (((bit) & 31u) + BITS > 32u ? name##_1.data[(from) + ((bit) >> 5) + 1u] << (32u - ((bit) & 31u)) : 0u)) & \
     ((1u << BITS) - 1u))

// Four codes of fewer than 8 bits, in the lowest bits of v.
uint spread(uint v) {
    const uint both = (1u << (2 * BITS)) - 1, one = ((1u << BITS) - 1) * 0x10001u;
    uint pairs = (v & both) | ((v << (16 - 2 * BITS)) & (both << 16));
    return (pairs & one) | ((pairs << (8 - BITS)) & (one << 8));
}

// Codes 4j to 4j + 3 of a unit whose words begin at words[from], as bytes.
#define FOUR_CODES(words, from, j) \
    spread(4 * (j) * BITS % 32 + 4 * BITS <= 32 \
               ? words[(from) + 4 * (j) * BITS / 32] >> (4 * (j) * BITS % 32) \
               : (words[(from) + 4 * (j) * BITS / 32] >> (4 * (j) * BITS % 32)) | \
                     (words[(from) + min(4 * (j) * BITS / 32 + 1, BITS - 1)] << ((32 - 4 * (j) * BITS % 32) & 31)))

#endif
