package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/release"
)

// complete sets the completion of a flag.
func complete(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, with) // fails only for a flag that does not exist
}

// noFiles keeps the shell from offering files for flags that take none.
func noFiles(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		complete(cmd, flag, cobra.NoFileCompletions)
	}
}

func (a *app) completeChannel(cmd *cobra.Command, flag string) { complete(cmd, flag, a.channelNames) }

// channelNames completes with the configured channels.
func (a *app) channelNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.load()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for name := range c.Channels {
		names = append(names, name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeVersions completes one argument or flag with versions of the store,
// newest first.
func (a *app) completeVersions(list func(context.Context, *release.Publisher) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		p, err := a.publisher(cmd.Context(), a.newProgress(""))
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		versions, err := list(cmd.Context(), p)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		slices.Reverse(versions)
		return versions, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// loggedVersions returns the versions that a channel ever showed.
func loggedVersions(ctx context.Context, p *release.Publisher, channel string) ([]string, error) {
	log, err := channels.Repository{Store: p.Store}.Load(ctx, channel)
	if err != nil {
		return nil, err
	}
	var versions []string
	for _, e := range log.Entries {
		if !slices.Contains(versions, e.Version) {
			versions = append(versions, e.Version)
		}
	}
	return versions, nil
}
