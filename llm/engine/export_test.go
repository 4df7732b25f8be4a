package engine

import (
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/kompute-go/kompute-go/llm/demomodel"
	"github.com/kompute-go/kompute-go/llm/generate"
	"github.com/kompute-go/kompute-go/llm/grammar"
)

// SmallVocabulary is how many tokens the small model has: the first ones of the demo model, a character each.
const SmallVocabulary = 96

// SmallGrammar is one whose texts the small model can write.
func SmallGrammar(t require.TestingT) *grammar.Grammar {
	g, err := smallGrammar()
	require.NoError(t, err)
	return g
}

var smallGrammar = sync.OnceValues(func() (*grammar.Grammar, error) {
	folder, err := generate.OpenFS(demomodel.FS(), demomodel.Name)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return grammar.CompileAny(grammar.NewVocabulary(folder.Tokenizer, SmallVocabulary), grammar.Alternative{Regexp: `[a-m]{1,4}([0-9+*-][n-z]{2,5}){1,6}`})
})
