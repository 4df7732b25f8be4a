// Package chat renders chat templates: the Jinja programs in
// tokenizer_config.json that turn a conversation into the text a model was
// trained on.
//
// The rules are those of Hugging Face transformers: trim_blocks and
// lstrip_blocks are on, one newline at the end of the template is dropped,
// raise_exception and strftime_now exist, ranges are bounded. Messages are
// passed as values and never parsed as template text.
//
// A template is a program that comes with a model, which need not be trusted: its
// size, nesting, time, steps, memory and output are bounded, and what exceeds a bound
// is an error.
package chat
