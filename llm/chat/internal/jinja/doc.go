// Package jinja renders Jinja templates within limits: steps, bytes, output, depth
// and a context. It is the part of Jinja 3.1 that chat templates use, set up as
// Hugging Face transformers does: trim_blocks and lstrip_blocks, loop controls, one
// newline at the end dropped, no escaping, undefined values that print as nothing.
//
// It differs from Jinja only in ways that should not matter to templates.
// Integers have 64 bits, except those of JSON that are only printed. There are no
// other templates, so no blocks, imports and includes. Marks (MarkBegin, MarkEnd) are not
// characters. Lists have append, insert and pop, and dictionaries pop and update, which
// transformers' sandbox refuses.
//
// The reference is https://jinja.palletsprojects.com/en/stable/templates/, and for
// methods of strings, lists and dictionaries that of Python.
package jinja
