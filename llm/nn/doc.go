// Package nn has the layers of language models: small typed structs with their
// weights, each with a Forward that follows its formula.
//
// T is the type of activations. In shapes, T is also the number of new tokens,
// H the hidden width, V the vocabulary, Hq and Hkv the numbers of query and
// key-value heads, and D the elements of a head. The batch axis is always 1: the
// tokens of a pass are those of one sequence ([KVCache]) or of many ([Pages]).
//
// Forward only enqueues on a stream: it waits for nothing, results belong to the
// innermost open scope of the stream, and reading a result returns any error. Whoever
// made the weights closes them. A layer may be used on several streams at once; a
// [KVCache] or a [Cursor] only on one.
package nn
