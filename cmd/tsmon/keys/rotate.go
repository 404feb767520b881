package keys

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tsmon/cmd/tsmon/cli"
	"tsmon/release/rotation"
	"tsmon/signing"
)

func rotateCommand(app *cli.App) *cobra.Command {
	var to, bridge string
	cmd := &cobra.Command{
		Use:   "rotate --to FILE",
		Short: "Plan the change to a new signing key",
		Long: `Plan the change to a new signing key. The command changes nothing. Run it again during
the rotation: it says where each channel stands and what to do next.

A build of the application contains one public key. To change it you publish a bridge: a
release that the old key signs and that is built with the new key. Where clients ask
tsmon serve, the bridge is a watershed, which every older client must install first.
Where clients read latest.json, the channel keeps showing the bridge, and the new key
signs releases for another channel, which the bridge reads.

Clients are counted if the records of tsmon serve can be reached. The Tauri project
below the current folder, if there is one, decides whether the application reads
latest.json.

FILE is a public key file of the Tauri CLI or of minisign, or the key itself.`,
		Example: `  tsmon keys generate --output new.key
  tsmon keys rotate --to new.key.pub
  tsmon keys rotate --to new.key.pub --bridge 2.0.0 --json`,
		Args: cli.Args(0, 0, "no arguments; --to names the new public key"),
		RunE: func(cmd *cobra.Command, _ []string) error { return runRotate(cmd.Context(), app, to, bridge) },
	}
	cmd.Flags().StringVar(&to, "to", "", "`FILE` of the new public key, or the key itself (required)")
	cmd.Flags().StringVar(&bridge, "bridge", "", "`VERSION` of the bridge (default: the one in trusted_keys, else the next minor version)")
	return cmd
}

func runRotate(ctx context.Context, app *cli.App, to, bridge string) error {
	if to == "" {
		return cli.WithHint(cli.Usagef("--to is missing"), "give --to FILE.pub; `tsmon keys generate --output FILE` makes a new pair")
	}
	key, err := newKey(to)
	if err != nil {
		return err
	}
	c, p, err := app.LoadPublisher(ctx, "")
	if err != nil {
		return err
	}
	reads := app.ReadsManifest(c)
	for name, policy := range p.Policies {
		policy.ReadsManifest = reads || c.Channels[name].ReadsManifest || policy.Rings // rings are manifests too
		p.Policies[name] = policy
	}
	plan, err := rotation.Make(ctx, p, key, bridge, c.ChannelLike)
	if err != nil {
		return err
	}
	return app.Print(plan, func(w io.Writer) { printRotation(w, plan) })
}

// newKey reads a public key from a file or a text. Errors don't show the text, which may be secret.
func newKey(arg string) (key signing.PublicKey, err error) {
	text, err := cli.TextOrFile(arg)
	if err != nil {
		return key, err
	}
	if key, err = signing.ParsePublicKey(text); err != nil && text == arg {
		err = orNoFile(arg, err)
	}
	if _, private := signing.ParsePrivateKey(text); private == nil {
		err = cli.WithHint(err, "give the file of the public key; for FILE it is FILE.pub")
	}
	return key, err
}

var stateTexts = map[rotation.State]string{
	rotation.Empty:   "shows nothing",
	rotation.Bridge:  "needs the bridge",
	rotation.Rolling: "rolls the bridge out",
	rotation.Waiting: "stays at the bridge",
	rotation.Ready:   "ready for the new key",
	rotation.Done:    "signed by the new key",
}

func printRotation(w io.Writer, p *rotation.Plan) {
	fmt.Fprintf(w, "from %s to %s; the bridge is %s\n\n", strings.Join(p.From, ", "), p.To, p.Bridge)
	rows := [][]string{{"CHANNEL", "SHOWS", "SIGNED BY", "CLIENTS", "STATE", "STRANDED NOW", "AFTER THE BRIDGE"}}
	for _, c := range p.Channels {
		after := "–"
		if c.AfterBridge != nil {
			after = lostText(*c.AfterBridge, c.ReadsManifest)
		}
		rows = append(rows, []string{c.Channel, c.Version, strings.Join(c.SignedBy, ", "), countText(c.Clients), stateTexts[c.State], lostText(c.Stranded, c.ReadsManifest), after})
	}
	cli.Table(w, rows)
	for i, s := range p.Next {
		fmt.Fprintf(w, "\n%d. ", i+1)
		if s.Channel != "" {
			fmt.Fprintf(w, "%s: ", s.Channel)
		}
		fmt.Fprintln(w, s.Text)
		for line := range strings.Lines(s.Write) {
			fmt.Fprint(w, "     "+line)
		}
		if s.Write != "" {
			fmt.Fprintln(w)
		}
		if s.Command != "" {
			fmt.Fprintln(w, "     "+s.Command)
		}
	}
}

func countText(n *int) string {
	if n == nil {
		return "not known"
	}
	return strconv.Itoa(*n)
}

// lostText describes which clients the new key would strand.
func lostText(l rotation.Lost, readsManifest bool) string {
	versions, where := l.Server, ""
	if readsManifest {
		versions, where = l.Manifest, " on latest.json"
	}
	if len(versions) == 0 {
		return "nobody"
	}
	text := versions[0]
	if last := versions[len(versions)-1]; last != text {
		text += " – " + last
	}
	if l.Clients != nil && !readsManifest {
		text += fmt.Sprintf(", clients: %d", *l.Clients)
	}
	return text + where
}
