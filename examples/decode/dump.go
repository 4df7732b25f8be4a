package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"github.com/kompute-go/kompute-go/internal/cli"
	"github.com/kompute-go/kompute-go/kompute"
)

// dumpRegion describes the decode step that the answers were made with.
func (a *app) dumpRegion(file string) error {
	region := a.session.Region()
	if region == nil {
		why := "nothing was replayed"
		if err := a.session.Uncaptured(); err != nil {
			why += ": " + oneLine(err)
		}
		return &usageError{"dump-region", why}
	}
	described, err := region.Describe()
	if err != nil {
		return err
	}
	data, err := regionFile(file, described, a.folder.Name()+" on "+a.device.Info().Name)
	if err != nil {
		return err
	}
	f, err := cli.CreateOutput(file)
	if err != nil {
		return &usageError{"dump-region", err.Error()}
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// regionFile is a region in the form that the file's extension selects: JSON, text,
// or a drawing.
func regionFile(file string, region *kompute.RegionDescription, title string) ([]byte, error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".json":
		data, err := json.MarshalIndent(region, "", "  ")
		return append(data, '\n'), err
	case ".txt":
		return []byte(title + "\n" + region.String()), nil
	}
	return drawRegion(region, title), nil
}
