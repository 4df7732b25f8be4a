// Package builds tests that every package of the module compiles for other
// processors and systems and with other tags, as far as the type checker can tell: from
// source, which takes a tenth of the time of compiling the standard library for them.
package builds

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/kompute-go/kompute-go"

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath, Dir string
	Name            string
	GoFiles         []string
	ImportMap       map[string]string // where the import is not the package's path
	Standard        bool
	Error           *struct{ Err string }
}

// list returns the packages of the module, their tests and all that they import,
// each after its imports.
func list(t *testing.T, env, flags []string) []listed {
	args := append([]string{"list", "-e", "-deps", "-test", "-json=ImportPath,Dir,Name,GoFiles,ImportMap,Standard,Error"}, flags...)
	cmd := exec.Command("go", append(args, module+"/...")...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var packages []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else {
			require.NoError(t, err)
		}
		packages = append(packages, p)
	}
}

// checker type-checks packages for one processor.
type checker struct {
	arch    string
	files   *token.FileSet
	checked map[string]*types.Package // by path
}

// check type-checks a package: what functions do only in those of the module.
func (c *checker) check(p listed) error {
	if p.Error != nil {
		return errors.New(p.Error.Err)
	}
	ours := strings.HasPrefix(p.ImportPath, module)
	mode := parser.SkipObjectResolution
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.files, name, nil, mode)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	config := types.Config{
		Sizes:            types.SizesFor("gc", c.arch),
		IgnoreFuncBodies: !ours,
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if path == "unsafe" {
				return types.Unsafe, nil
			}
			if found := c.checked[path]; found != nil {
				return found, nil
			}
			return nil, fmt.Errorf("%s is not listed", path)
		}),
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // without the test that it was listed for
	checked, err := config.Check(path, c.files, files, nil)
	c.checked[p.ImportPath] = checked
	return err
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }

func TestOtherBuildsTypeCheck(t *testing.T) {
	for _, build := range []struct {
		os, arch string
		flags    []string
	}{{"linux", "386", nil}, {"linux", "arm", nil}, {"linux", "arm64", nil}, {"linux", "amd64", []string{"-tags=nogpu"}}, {"windows", "amd64", nil}} {
		t.Run(strings.Join(append([]string{build.os, build.arch}, build.flags...), " "), func(t *testing.T) {
			t.Parallel()
			c := checker{arch: build.arch, files: token.NewFileSet(), checked: make(map[string]*types.Package)}
			packages := list(t, []string{"CGO_ENABLED=0", "GOOS=" + build.os, "GOARCH=" + build.arch}, build.flags)
			require.True(t, slices.ContainsFunc(packages, func(p listed) bool { return p.ImportPath == module+"/kompute" }))
			for _, p := range packages {
				if p.ImportPath != "unsafe" && !strings.HasSuffix(p.ImportPath, ".test") { // the test's generated main package
					assert.NoError(t, c.check(p), p.ImportPath)
				}
			}
		})
	}
}
