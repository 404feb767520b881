package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tsmon/channels"
	"tsmon/release/library"
	"tsmon/store/record"
)

type completion struct{ *App }

// complete adds completion to a command and its subcommands, by the placeholders in the usage
// line and in the flags' descriptions. CHANNEL, SCHEMA and VERSION complete to existing names,
// FILE and the like to files, all others to nothing. Completion that is set already stays.
func (a completion) complete(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.candidates(cmd, placeholder(cmd.Use, len(args)))
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, _ := pflag.UnquoteUsage(f)
		if f.Name == "version" {
			name = "" // a name that does not exist yet
		}
		// It fails if the flag has completion already.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.candidates(cmd, name)
		})
	})
	for _, c := range cmd.Commands() {
		a.complete(c)
	}
}

var filePlaceholders = []string{"FILE", "FOLDER", "DIR", "BUNDLE", "KEY", "PATH", "A", "B", "-"}

// placeholder returns the n-th argument in a usage line: of "show CHANNEL",
// CHANNEL. The last one may be repeated if it ends in an ellipsis.
func placeholder(use string, n int) string {
	var names []string
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(use))
	for i := 1; i < len(words); i++ {
		switch word := words[i]; {
		case strings.HasPrefix(word, "--"):
			i++ // the flag's value
		case word != strings.ToLower(word) || word == "-":
			names = append(names, word)
		}
	}
	if len(names) > 0 && strings.HasSuffix(names[len(names)-1], "…") {
		n = min(n, len(names)-1)
	}
	if n >= len(names) {
		return ""
	}
	return strings.TrimSuffix(names[n], "…")
}

func (a completion) candidates(cmd *cobra.Command, name string) ([]string, cobra.ShellCompDirective) {
	kinds := strings.Split(name, "|")
	var find func(*cobra.Command) ([]string, error)
	directive := cobra.ShellCompDirectiveNoFileComp
	switch {
	case slices.ContainsFunc(kinds, func(kind string) bool { return slices.Contains(filePlaceholders, kind) }):
		return nil, cobra.ShellCompDirectiveDefault
	case kinds[0] == "CHANNEL":
		find = a.channelNames
	case kinds[0] == "SCHEMA":
		find = a.Schemas
	case kinds[0] == "VERSION":
		find = a.versions
		directive |= cobra.ShellCompDirectiveKeepOrder
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := find(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, directive
}

func (a completion) channelNames(*cobra.Command) ([]string, error) {
	c, err := a.Load()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(c.Channels)), nil
}

// Schemas lists the tenants for completion, if their records are a file.
func (a *App) Schemas(cmd *cobra.Command) (names []string, err error) {
	err = a.LocalRecords(cmd.Context(), func(s record.Store) error {
		tenants, err := s.Tenants(cmd.Context())
		for _, t := range tenants {
			names = append(names, t.Schema)
		}
		return err
	})
	return names, err
}

// LocalRecords runs f on records that are a file, for completion: asking a server might
// take too long.
func (a *App) LocalRecords(ctx context.Context, f func(record.Store) error) error {
	c, err := a.Load()
	if err != nil || RecordsFile(c) == "" {
		return err
	}
	return WithRecords(ctx, c, f)
}

const completionTimeout = 3 * time.Second

// versions lists the releases of the store, newest first. If a flag names a channel, it lists
// only the versions that the channel has shown.
func (a completion) versions(cmd *cobra.Command) ([]string, error) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, err := a.Load()
	if err != nil {
		return nil, err
	}
	store, err := a.OpenStore(ctx, c.Storage)
	if err != nil {
		return nil, err
	}
	found, err := library.Library{Store: store}.List(ctx)
	var versions []string
	for _, v := range found {
		versions = append(versions, v.Version)
	}
	for _, name := range []string{"from", "channel"} {
		flag := cmd.Flags().Lookup(name)
		if flag == nil || err != nil {
			continue
		}
		var log *channels.Log
		if log, err = (channels.Repository{Store: store}).Load(ctx, flag.Value.String()); err == nil {
			versions = slices.DeleteFunc(versions, func(v string) bool { return !log.Shown(v) })
		}
	}
	slices.Reverse(versions)
	return versions, err
}
