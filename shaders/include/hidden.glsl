#ifndef HIDDEN_GLSL
#define HIDDEN_GLSL

// n, as a bound that the compiler cannot compute; at_least_1 is a number that it does not know, 1 or more. Drivers unroll
// loops of a known count although they are told not to, and code that hardly ever runs would then push other code out of
// the instruction caches.
#define HIDDEN(n, at_least_1) min((n), (n) - 1 + (at_least_1))

#endif
