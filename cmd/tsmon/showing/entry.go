package showing

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/release"
	"tsmon/release/library"
	"tsmon/store/object"
)

// oneEntry has the flags that show one entry of a log as operators signed it.
type oneEntry struct {
	number   uint64
	raw      bool
	operator string
}

func (o *oneEntry) add(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&o.number, "entry", 0, "number `N` of the entry for --raw or --signature")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "print the bytes of the entry that operators signed")
	cmd.Flags().StringVar(&o.operator, "signature", "", "print the signature of an `OPERATOR`, for ssh-keygen -Y verify -n "+channels.Namespace)
}

func (o *oneEntry) run(ctx context.Context, app *cli.App, channel string) error {
	if o.number == 0 || o.raw == (o.operator != "") {
		return cli.WithHint(cli.Usagef("--entry goes with --raw or with --signature"), "write --entry 7 --raw, or --entry 7 --signature ann")
	}
	_, p, log, err := LoadLog(ctx, app, channel)
	if errors.Is(err, channels.ErrLog) && o.raw { // to be looked at
		data, _, failed := object.ReadAll(ctx, p.Store, channels.EntryKey(channel, o.number), channels.MaxEntry)
		if failed == nil {
			failed = app.Write(data)
		}
		return errors.Join(err, failed)
	}
	if err != nil {
		return err
	}
	e := log.At(o.number)
	if e == nil {
		return &release.Refusal{Cause: library.ErrNoRelease, Text: fmt.Sprintf("%s has no entry %d", channel, o.number), Mend: "`tsmon channel log " + channel + "` shows its entries"}
	}
	if o.raw {
		payload, err := e.Payload()
		if err != nil {
			return err
		}
		return app.Write(payload)
	}
	if i := slices.Index(e.SignedBy(log.InForce(e.Sequence)), o.operator); i >= 0 {
		return app.Write([]byte(e.Signatures[i]))
	}
	return &release.Refusal{Cause: channels.ErrUnsigned, Text: fmt.Sprintf("%s has not signed entry %d of %s", o.operator, o.number, channel), Mend: "`tsmon channel log " + channel + " --json` lists who signed each entry"}
}
