package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Operator is the OpenSSH public key of somebody who signs moves. In the file it is a
// text, or a mapping for a server.
type Operator struct {
	Key string `yaml:"key"`
	// Only is OnlyPause for the key of a server, which signs nothing else.
	Only string `yaml:"only"`
}

// OnlyPause is a value of Operator.Only.
const OnlyPause = "pause"

// UnmarshalYAML reads a text or a mapping.
func (o *Operator) UnmarshalYAML(node *yaml.Node) error {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode {
		return node.Decode(&o.Key)
	}
	// A decoder for part of a document takes unknown keys.
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if name := node.Content[i]; name.Value != "key" && name.Value != "only" {
			return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: field %s not found in type config.Operator", name.Line, name.Value)}}
		}
	}
	type plain Operator
	return node.Decode((*plain)(o))
}

// maxPlanLife bounds how long a plan may wait for signatures.
const maxPlanLife = 90 * 24 * time.Hour

// checkOperators checks everything that can be checked without the keys.
func (c *Config) checkOperators() (found Mistakes) {
	for name, o := range c.Operators {
		if o.Only != "" && o.Only != OnlyPause {
			found = append(found, wrong("operators."+name, "may be limited to %s, not to %.40q", OnlyPause, o.Only))
		}
		if name == "root" {
			found = append(found, wrong("operators.root", "can't be the name of one: the signatures of server.operators_root have it"))
		}
	}
	for name, channel := range c.Channels {
		if len(c.Operators) == 0 && (channel.Approvals != nil || channel.RollbackApprovals != nil) {
			found = append(found, wrong("channels."+name, "has approvals, and there are no operators"))
		} else {
			found = append(found, checkCount("channels."+name+".approvals", channel.Approvals)...)
			found = append(found, checkCount("channels."+name+".rollback_approvals", channel.RollbackApprovals)...)
		}
		for _, operator := range channel.Operators {
			if _, ok := c.Operators[operator]; !ok {
				found = append(found, wrong("channels."+name+".operators", "names %.40q, who is none of the operators", operator))
			}
		}
		if d := channel.ApprovalsWithin; d != 0 && (d < time.Minute || d > maxPlanLife) {
			found = append(found, wrong("channels."+name+".approvals_within", "is not between 1m and %s", maxPlanLife))
		}
	}
	return found
}

func checkCount(setting string, n *int) Mistakes {
	if n == nil || *n > 0 {
		return nil
	}
	return Mistakes{wrong(setting, "is %d, and a move takes at least 1", *n)}
}
