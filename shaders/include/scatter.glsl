// Shared by scatter's kernels: dense indices, and two marks for each place of
// the axis, for the first and the last update of that place. ALONG: indices,
// and with them places, differ from column to column.
//
//   layout(set = 0, binding = …) … indices[];
//   layout(push_constant) uniform Push { ScatterParams p; };
#ifndef SCATTER_GLSL
#define SCATTER_GLSL

// The place that an index stands for; outside 0…places-1 there is none.
uint resolve(uint index) {
    if (SIGNED_INDICES != 0u && int(index) < 0) {
        index += p.places;
    }
    return index;
}

// An update: its column (before and after the axis), and its number along it.
struct Update {
    uint pre, number, post;
};

Update locate(uint e, uint post) {
    uint q = e / post;
    uint pre = q / p.count;
    return Update(pre, q - pre * p.count, e - q * post);
}

// Where the index of a column's update is stored, and where the marks of a place are.
uint index_at(Update u, uint number) {
    return p.index_offset + (ALONG != 0u ? (u.pre * p.count + number) * p.post + u.post : number);
}
uint mark_at(Update u, uint place) {
    return p.marks_offset + 2u * (ALONG != 0u ? (u.pre * p.places + place) * p.post + u.post : place);
}

#endif
