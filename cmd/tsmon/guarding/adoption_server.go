package guarding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tsmon/api/fleet"
	"tsmon/channels"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
)

const (
	adoptionTime = 30 * time.Second
	maxAdoption  = 16 << 20 // bytes
)

func runAdoptionOf(ctx context.Context, app *cli.App, server, channel string) error {
	c, err := app.Load()
	if err != nil {
		return err
	}
	if err := channels.CheckName(channel); err != nil {
		return cli.Usage(err)
	}
	address, err := adoptionAddress(server, channel)
	if err != nil {
		return err
	}
	if c.Server.MetricsKey == "" {
		return cli.WithHint(cli.Usagef("no metrics key is set for %s", server), mendKey)
	}
	ctx, cancel := context.WithTimeout(ctx, adoptionTime)
	defer cancel()
	result, err := askAdoption(ctx, address, string(c.Server.MetricsKey), channel)
	if err != nil {
		return err
	}
	return app.Print(result, func(w io.Writer) { drawAdoption(w, result) })
}

const mendKey = "set TSMON_METRICS_KEY (server.metrics_key) to the key of the server there; a server without a key refuses everybody"

// adoptionAddress returns the address of a channel's adoption on a server. server is the
// address of the server or of its update tree.
func adoptionAddress(server, channel string) (string, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https":
		return "", cli.WithHint(cli.Usagef("--server is not the address of a server"), "write --server https://releases.example.com")
	case u.Scheme == "http" && !config.IsLoopback(u.Hostname()):
		return "", cli.WithHint(cli.Usagef("--server %s would get the key without TLS", server), "write https://, or ask on the machine of the server, by http://127.0.0.1:8080")
	}
	base := strings.TrimSuffix(strings.TrimRight(u.String(), "/"), "/updates")
	return base + "/updates/" + channel + "/adoption", nil
}

// askAdoption fetches an adoption. It follows no redirects, so that the key is sent nowhere
// else.
func askAdoption(ctx context.Context, address, key, channel string) (*fleet.Adoption, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return nil, unanswered(err)
	}
	defer response.Body.Close()
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, cli.WithHint(fmt.Errorf("%s refuses the key (status %d)", address, status), mendKey)
	case status == http.StatusNotFound:
		return nil, cli.WithHint(fmt.Errorf("%s was not found", address),
			"check channel and address: --server is the address of a tsmon serve that has adoption, not of a bucket, nor of an older one")
	case status != http.StatusOK:
		return nil, cli.WithHint(fmt.Errorf("%s answers with status %d", address, status), mendAnswer)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAdoption+1))
	if err != nil {
		return nil, unanswered(err)
	}
	var a fleet.Adoption
	if len(data) > maxAdoption {
		err = fmt.Errorf("%w: the answer is larger than %d MiB", fleet.ErrAdoption, maxAdoption>>20)
	} else if err = json.Unmarshal(data, &a); err == nil {
		err = a.Check(channel)
	}
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("%s: %w", address, err), mendAnswer)
	}
	a.Guard = nil // which the server does not tell
	return &a, nil
}

const mendAnswer = "check that --server is the address of a tsmon serve; its log says why it failed"

func unanswered(err error) error {
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() {
		err = fmt.Errorf("no answer within %s: %w", adoptionTime, err)
	}
	return cli.WithHint(err, "check --server, the server there and the network")
}
