package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Prepare adds the common flags, help and completion to the root command, which already has its
// subcommands.
func (a *App) Prepare(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.ConfigPath, "config", "", "configuration `FILE` (default ./tsmon.yaml, if it exists)")
	flags.BoolVar(&a.JSON, "json", false, "print the result, errors and warnings as JSON")
	flags.BoolVarP(&a.Quiet, "quiet", "q", false, "print only errors and warnings to stderr")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.RunE, completion.Args = NeedsCommand, cobra.ArbitraryArgs
		for _, shell := range completion.Commands() {
			shell.Args, shell.Example = NoArgs, "  "+shell.CommandPath()
		}
	}
	completion{a}.complete(root)
}

// Group returns a command that only has subcommands.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: NeedsCommand, Args: cobra.ArbitraryArgs}
	c.AddCommand(commands...)
	return c
}

// helpCommand is cobra's help command, except that it fails for a command that
// does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show the help of a command",
		Example: "  tsmon help release publish",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return NeedsCommand(found, rest)
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			if found, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, c := range found.Commands() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// NeedsCommand shows the help of a command that only has subcommands, or fails for an unknown
// subcommand.
func NeedsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef("%s has no command %q%s", cmd.CommandPath(), args[0], hint)
}

// flagKinds describe the values of flags, by the type that pflag gives them.
var flagKinds = map[string]string{
	"bool":         "true or false",
	"duration":     "a duration such as 30m or 6h",
	"float64":      "a number",
	"float64Slice": "numbers separated by commas",
	"int":          "a whole number",
	"int64":        "a whole number",
	"intSlice":     "whole numbers separated by commas",
	"stringSlice":  "a list separated by commas",
	"uint64":       "a whole number, 0 or above",
}

// flagError reports a wrong flag, or the mistyped command before it.
func flagError(cmd *cobra.Command, err error) error {
	if before := cmd.Flags().Args(); cmd.HasSubCommands() && len(before) > 0 {
		return NeedsCommand(cmd, before)
	}
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return Usage(err)
	}
	flag := wrong.GetFlag()
	kind, plain := flagKinds[flag.Value.Type()]
	switch {
	case !plain:
		return Usagef("--%s: %w", flag.Name, wrong.Unwrap())
	case errors.Is(err, strconv.ErrRange):
		return Usagef("--%s is out of range: %s", flag.Name, wrong.GetValue())
	}
	return Usagef("--%s is %s, not %q", flag.Name, kind, wrong.GetValue())
}

// NoArgs refuses arguments.
var NoArgs = Args(0, 0, "no arguments")

// Args checks the number of arguments. what describes them in the error, such as "one SCHEMA". A
// negative most means any number.
func Args(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most {
			return Usagef("%s takes %s", cmd.CommandPath(), what)
		}
		return nil
	}
}
