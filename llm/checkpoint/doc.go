// Package checkpoint reads model folders in MLX's format: config.json,
// generation_config.json and the weights, which are one model.safetensors or,
// without it, shards listed in model.safetensors.index.json.
//
// A folder comes from a directory, whose weights are then memory-mapped, or
// from any [io/fs.FS], such as files embedded in the binary.
//
// Nothing in these files is trusted. Every length, offset, shape and name is
// checked before use, no allocation relies on an unchecked header, and every
// refusal is one of the typed errors [FormatError], [ConfigError],
// [UnsupportedError], [MissingError] and [MismatchError].
package checkpoint
