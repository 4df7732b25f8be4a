// Package grammar determines which tokens may come next, so that a generated text is
// JSON that conforms to a given schema, matches a regular expression, or follows a
// grammar in GBNF.
//
// Each of these becomes a context-free grammar over bytes, and the grammar a pushdown
// automaton. A state of the automaton is a set of stacks of what is still to come; it
// is computed when it is first reached. The tokens that a state allows are found by one
// walk over the sorted vocabulary, and kept with the state.
//
//	v := grammar.NewVocabulary(folder.Tokenizer, folder.Limits().Vocabulary)
//	g, err := grammar.Compile(schema, v, grammar.Options{})
//	m := g.Matcher()
//	allowed, err := m.Mask()
//	m.Accept(token)
package grammar
