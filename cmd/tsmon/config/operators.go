package config

import (
	"reflect"
	"time"

	"go.yaml.in/yaml/v3"
)

// Operator is the OpenSSH public key of somebody who signs moves. In the file it is a text, or a
// mapping for a server's key.
type Operator struct {
	Key string `yaml:"key"`
	// Only is OnlyPause for the key of a server, which signs nothing else.
	Only string `yaml:"only"`
}

// OnlyPause is a value of Operator.Only.
const OnlyPause = "pause"

// UnmarshalYAML reads a text or a mapping.
func (o *Operator) UnmarshalYAML(node *yaml.Node) error {
	type plain Operator
	return decodeKey(node, &o.Key, (*plain)(o), reflect.TypeFor[Operator]())
}

// maxPlanLife bounds how long a plan may wait for signatures.
const maxPlanLife = 90 * 24 * time.Hour

// checkOperators checks everything that can be checked without the keys.
func (c *Config) checkOperators() (found Mistakes) {
	for name, o := range c.Operators {
		found.unless(o.Only == "" || o.Only == OnlyPause, "operators."+name, "may be limited to %s, not to %.40q", OnlyPause, o.Only)
		found.unless(name != "root", "operators.root", "is reserved: signatures by server.operators_root use this name")
	}
	for name, channel := range c.Channels {
		setting := "channels." + name
		if len(c.Operators) == 0 {
			found.unless(channel.Approvals == nil && channel.RollbackApprovals == nil, setting, "has approvals, but there are no operators")
		} else {
			found.checkCount(setting+".approvals", channel.Approvals)
			found.checkCount(setting+".rollback_approvals", channel.RollbackApprovals)
		}
		for _, operator := range channel.Operators {
			_, ok := c.Operators[operator]
			found.unless(ok, setting+".operators", "names %.40q, which is not in operators", operator)
		}
		d := channel.ApprovalsWithin
		found.unless(d == 0 || d >= time.Minute && d <= maxPlanLife, setting+".approvals_within", "is not between 1m and %dh", maxPlanLife/time.Hour)
	}
	return found
}

func (ms *Mistakes) checkCount(setting string, n *int) {
	if n != nil {
		ms.unless(*n > 0, setting, "is %d, but a move needs at least 1", *n)
	}
}
