// Package docs tests the links of the project's documents.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	code     = regexp.MustCompile("(?s)```.*?```")
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns what links to the headings of a document end in, as GitHub makes them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		plain := link.ReplaceAllString(m[1], "]")
		out[strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(plain), ""), " ", "-")] = true
	}
	return out
}

// Every link to another file of the project, or to a heading, leads somewhere.
func TestLinks(t *testing.T) {
	root := ".."
	count := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "build" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			count++
			checkLink(t, path, string(text), m[1])
		}
		return nil
	}))
	require.Greater(t, count, 100)
}

func checkLink(t *testing.T, path, text, target string) {
	t.Helper()
	file, anchor, _ := strings.Cut(target, "#")
	if file != "" {
		to := filepath.Join(filepath.Dir(path), file)
		info, err := os.Stat(to)
		if !assert.NoError(t, err, "%s: %s", path, target) || info.IsDir() || anchor == "" {
			return
		}
		data, err := os.ReadFile(to)
		require.NoError(t, err)
		text = string(data)
	}
	if anchor != "" {
		assert.True(t, anchors(text)[anchor], "%s: %s", path, target)
	}
}
