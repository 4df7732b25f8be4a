// Codes of fewer than 8 bits, taken from the words of a unit of 32 and put into bytes. Before the include: BITS.
#ifndef FOUR_CODES_GLSL
#define FOUR_CODES_GLSL

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
