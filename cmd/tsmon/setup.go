package main

import (
	"context"
	"net/http"
	"time"

	"tsmon/cmd/tsmon/config"
	"tsmon/release"
)

// publisher puts together what the release commands work with.
func (a *app) publisher(ctx context.Context, p *progress) (*release.Publisher, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	return a.publisherFor(ctx, c, p)
}

func (a *app) publisherFor(ctx context.Context, c *config.Config, p *progress) (*release.Publisher, error) {
	keys, err := keyring(c.TrustedKeys)
	if err != nil {
		return nil, err
	}
	store, err := a.openStore(ctx, c.Storage)
	if err != nil {
		return nil, err
	}
	policies := map[string]release.Policy{}
	for name, channel := range c.Channels {
		policies[name] = release.Policy{Targets: channel.Targets, Prerelease: channel.Prerelease, Follows: channel.Follows}
	}
	return &release.Publisher{
		Store: store, PublicURL: c.PublicURL, Keys: keys, Policies: policies,
		Who: a.who(), Now: a.now, Transferred: p.transferred, Step: p.step,
	}, nil
}

// httpClient waits at most 30 s for the head of an answer.
func httpClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	return &http.Client{Transport: transport}
}
