package api

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

// Parts of a message are lines; those that this server wrote, and blocks of system prompts, are one text.
func TestPartsOfMessages(t *testing.T) {
	for parts, want := range map[string]string{
		`null`: "", `"a"`: "a", `[]`: "", `[{"type":"text","text":"a"}]`: "a",
		`[{"type":"text","text":"a"},{"type":"text","text":""},{"text":"b"}]`: "a\n\nb",
		`[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"}]`:       "a\nb",
	} {
		var c content
		require.NoError(t, json.Unmarshal([]byte(parts), &c), parts)
		require.Equal(t, want, string(c), parts)
	}
	for parts, want := range map[string]string{
		`[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]`:         "a\nb",
		`[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]`:       "ab",
		`[{"type":"reasoning_text","text":"a"},{"type":"reasoning_text","text":"b"}]`: "ab",
	} {
		var c itemContent
		require.NoError(t, json.Unmarshal([]byte(parts), &c), parts)
		require.Equal(t, want, string(c), parts)
	}
	const two = `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`
	q := new(anthropicRequest)
	require.NoError(t, json.Unmarshal([]byte(`{"system":`+two+`,"messages":[{"role":"user","content":`+two+`},{"role":"assistant","content":`+two+`}]}`), q))
	c, err := q.chat()
	require.NoError(t, err)
	for i, want := range []string{"ab", "a\nb", "ab"} {
		require.Equal(t, want, string(c.Messages[i].Content))
	}
}
