package cli

import "testing"

func TestPlaceholder(t *testing.T) {
	for _, c := range []struct {
		use  string
		n    int
		want string
	}{
		{"list", 0, ""},
		{"show CHANNEL", 0, "CHANNEL"},
		{"show CHANNEL", 1, ""},
		{"import SCHEMA FILE|-", 1, "FILE|-"},
		{"show [KEY…]", 5, "KEY"},
		{"promote [--from CHANNEL] [--to CHANNEL] [VERSION]", 0, "VERSION"},
		{"publish --version V [flags] DIR|BUNDLE…", 0, "DIR|BUNDLE"},
		{"publish --version V [flags] DIR|BUNDLE…", 3, "DIR|BUNDLE"},
		{"rollback --channel CHANNEL [--to VERSION] --reason TEXT", 0, ""},
	} {
		if got := placeholder(c.use, c.n); got != c.want {
			t.Errorf("argument %d of %s: %q, want %q", c.n, c.use, got, c.want)
		}
	}
}
