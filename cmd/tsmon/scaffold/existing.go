package scaffold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"tsmon/cmd/tsmon/config"
)

// existing reads an existing tsmon.yaml. It changes only storage and public_url, if others were
// chosen.
func (p *plan) existing(ctx context.Context) error {
	var err error
	if p.config, err = config.Load(p.file, nil); err != nil {
		return mistake(err, "correct the file, or remove it to let init write it again")
	}
	before, err := os.ReadFile(p.file)
	if err != nil {
		return err
	}
	content := before
	for name, value := range map[string]string{"storage": p.Storage, "public_url": strings.TrimRight(p.PublicURL, "/")} {
		if value == "" {
			continue
		}
		if content, err = withSetting(content, name, value); err != nil {
			return mistake(fmt.Errorf("%s: %s can't be changed there: %w", p.file, name, err), "write "+name+": "+value+" into "+p.file)
		}
	}
	if string(content) == string(before) {
		p.report.Files = append(p.report.Files, Written{Path: p.file, Action: Keep})
	} else {
		changed, err := p.add(ctx, content)
		if err != nil {
			return err
		}
		p.config.Storage, p.config.PublicURL = changed.Storage, changed.PublicURL
	}
	p.builds = p.configuredBuilds()
	return nil
}

var errOwnLine = errors.New("it has no line of its own")

// withSetting changes one top-level setting of a configuration, which must have a line of its own.
// All other lines stay as they are.
func withSetting(before []byte, name, value string) ([]byte, error) {
	var root yaml.Node
	want := map[string]any{}
	if err := yaml.Unmarshal(before, &root); err != nil {
		return nil, err
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil, errOwnLine
	}
	if err := root.Decode(&want); err != nil {
		return nil, err
	}
	if is, _ := want[name].(string); strings.TrimRight(is, "/") == strings.TrimRight(value, "/") {
		return before, nil
	}
	want[name] = value
	written, err := scalar(value)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(before), "\n")
	for i, top := 0, root.Content[0].Content; i+1 < len(top); i += 2 {
		if top[i].Value != name {
			continue
		}
		line := name + ": " + written
		if comment := top[i+1].LineComment; comment != "" {
			line += "    " + comment
		}
		old := lines[top[i].Line-1]
		lines[top[i].Line-1] = line + old[len(strings.TrimRight(old, "\r\n")):]
	}
	content, is := []byte(strings.Join(lines, "")), map[string]any{}
	if err := yaml.Unmarshal(content, &is); err != nil || !reflect.DeepEqual(is, want) {
		return nil, errOwnLine
	}
	return content, nil
}
