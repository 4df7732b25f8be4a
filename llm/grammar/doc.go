// Package grammar says which tokens may follow, so that a generated text is JSON of a
// given schema.
//
// A schema becomes a context-free grammar over bytes, and that a pushdown automaton
// whose states are found when they are reached: sets of stacks of what is still to
// come. The tokens that a state allows are found by one walk over the sorted
// vocabulary and kept with the state.
//
//	v := grammar.NewVocabulary(folder.Tokenizer, folder.Limits().Vocabulary)
//	g, err := grammar.Compile(schema, v, grammar.Options{})
//	m := g.Matcher()
//	allowed := m.Mask()
//	m.Accept(token)
package grammar
