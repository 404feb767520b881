package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"tsmon/cmd/tsmon/cli"
)

// manCommand writes the man pages of all commands; packages contain them. The date in
// them is SOURCE_DATE_EPOCH's, if that is set.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write a man page for each command",
		Example: "  tsmon man /usr/local/share/man/man1",
		Args:    cli.Args(1, 1, "one FOLDER"),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			markUp(root)
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "tsmon " + version().Version, Manual: "tsmon"}, args[0])
		},
	}
}

// markUp makes the indented lines of help texts code blocks of Markdown, which the man
// pages are made from.
func markUp(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	var marked strings.Builder
	inBlock := false
	for line := range strings.Lines(cmd.Long) {
		block := strings.HasPrefix(line, "  ") || inBlock && strings.TrimSpace(line) == ""
		if block != inBlock {
			marked.WriteByte('\n')
		}
		if block {
			marked.WriteString("    ")
		}
		marked.WriteString(line)
		inBlock = block
	}
	cmd.Long = marked.String()
	for _, c := range cmd.Commands() {
		markUp(c)
	}
}
