// The draw of sample.comp by one workgroup alone, for any number of tokens with any keys: some bits of the keys at a
// time, it finds the key at which top-k and top-p end. Include it after sample_bins.glsl.
#ifndef SAMPLE_KEYS_GLSL
#define SAMPLE_KEYS_GLSL

const uint KEY_LEVELS = 3u;
uint level_shift(uint level) { return level == 0u ? 21u : (level == 1u ? 10u : 0u); }
uint level_bins(uint level) { return level == 2u ? SAMPLE_BINS / 2u : SAMPLE_BINS; }

Last last_by_keys() {
    uint last = 0u, known = 0xffffffffu; // of the bits that are not known yet
    uvec3 before = uvec3(0u);
    Limits limits;
    [[dont_unroll]] for (uint level = 0u; level < KEY_LEVELS; level++) {
        uint n = level_bins(level), shift = level_shift(level);
        clear_bins(0u, BIN_WORDS);
        load_first_turn();
        EACH_TOKEN(c, key, {
            if (((key ^ last) & ~known) == 0u) {
                add_token(key, n - 1u - ((key >> shift) & (n - 1u)));
            }
        })
        scan_bins(0u, n);
        if (level == 0u) {
            limits = limits_of(scanned_all().yz);
        }
        find_bin(0u, n, before, limits);
        if (found_bin == n) {
            return NO_LAST;
        }
        last |= (n - 1u - found_bin) << shift;
        known = (1u << shift) - 1u;
        before = found_before;
    }
    uint ties = limits.count - before.x;
    uvec2 weight = natural_weight(last);
    if (filters_mass() && weight != uvec2(0u)) {
        ties = min(ties, wide_div_up(wide_sub(limits.mass, before.yz), weight));
    }
    return Last(last, ties, weight_at(last));
}

void draw_alone() {
    part = 0u;
    run = p.x.cols;
    Last last = NO_LAST;
    if (filters()) {
        last = last_by_keys();
    }
    draw_from_part(last, true, uvec2(0u), uvec3(0u));
}

#endif
