// Package jinja renders Jinja templates within limits: steps, bytes, output, depth
// and a context. It is the part of Jinja 3.1 that chat templates use, set up as
// Hugging Face transformers does: trim_blocks and lstrip_blocks, loop controls, one
// newline at the end dropped, no escaping, undefined values that print as nothing.
//
// It differs from Jinja only in ways that should not matter to templates.
// Integers have 64 bits, except that larger ones in JSON can be printed. Templates
// cannot refer to other templates: there are no blocks, imports and includes. Marks
// (MarkBegin, MarkEnd) do not count as characters. Lists have append, insert and pop,
// and dictionaries pop and update, which transformers' sandbox refuses.
//
// The reference is https://jinja.palletsprojects.com/en/stable/templates/, and Python's
// documentation for the methods of strings, lists and dictionaries.
package jinja
