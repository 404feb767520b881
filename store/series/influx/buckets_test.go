package influx

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxdb-client-go/v2/domain"

	"tsmon/store/series"
	"tsmon/store/servertest"
)

// limited returns a token that may do one thing with one bucket.
func limited(t *testing.T, s *Store, bucket *domain.Bucket, action domain.PermissionAction) string {
	t.Helper()
	permission := domain.Permission{Action: action, Resource: domain.Resource{Type: domain.ResourceTypeBuckets, Id: bucket.Id, OrgID: bucket.OrgID}}
	made, err := s.server.client.AuthorizationsAPI().CreateAuthorizationWithOrgID(t.Context(), *bucket.OrgID, []domain.Permission{permission})
	if err != nil {
		t.Fatal(err)
	}
	return *made.Token
}

// testRefusals checks that an error says which setting is wrong.
func testRefusals(t *testing.T, server *servertest.InfluxDB2) {
	all := open(t, Options{URL: server.URL, Org: server.Org, Token: server.Token})
	for _, name := range []string{"refusals", "other"} {
		if err := all.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	bucket, err := all.server.client.BucketsAPI().FindBucketByName(t.Context(), "refusals")
	if err != nil {
		t.Fatal(err)
	}
	reads, writes := limited(t, all, bucket, domain.PermissionActionRead), limited(t, all, bucket, domain.PermissionActionWrite)
	write := func(s *Store, database string) error {
		return s.Write(t.Context(), database, []series.Sample{{Measurement: "m", Fields: map[string]any{"f": 1.0}, Time: time.Now()}})
	}
	fields := func(s *Store, database string) error { _, err := s.Fields(t.Context(), database); return err }
	keep := func(s *Store, database string) error {
		return s.Keep(t.Context(), database, series.Keeping{Retention: 48 * time.Hour})
	}
	create := func(s *Store, database string) error { return s.Create(t.Context(), database) }
	for name, c := range map[string]struct {
		org, token, database string
		call                 func(*Store, string) error
		want                 error
		says                 string
	}{
		"organisation, create": {"nope", server.Token, "new", create, ErrOrg, `organisation "nope"`},
		"organisation, keep":   {"nope", server.Token, "refusals", keep, ErrOrg, `organisation "nope"`},
		"organisation unseen":  {server.Org, reads, "new", create, ErrOrg, "the token may not see it"},
		"token, fields":        {server.Org, "wrong", "refusals", fields, fs.ErrPermission, "401"},
		"token, write":         {server.Org, "wrong", "refusals", write, fs.ErrPermission, "401"},
		"token, create":        {server.Org, "wrong", "new", create, fs.ErrPermission, "401"},
		"reads only":           {server.Org, reads, "refusals", write, fs.ErrPermission, "insufficient permissions for write"},
		"reads only, keep":     {server.Org, reads, "refusals", keep, ErrOrg, "the token may not see it"},
		"writes only":          {server.Org, writes, "refusals", fields, series.ErrNoDatabase, "or the token may not read it"},
		"another bucket":       {server.Org, reads, "other", fields, series.ErrNoDatabase, "or the token may not read it"},
		"no bucket, fields":    {server.Org, server.Token, "none", fields, series.ErrNoDatabase, "there is no such time-series database"},
		"no bucket, write":     {server.Org, server.Token, "none", write, series.ErrNoDatabase, "there is no such time-series database"},
		"no bucket, keep":      {server.Org, server.Token, "none", keep, series.ErrNoDatabase, "there is no such time-series database"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.call(open(t, Options{URL: server.URL, Org: c.org, Token: c.token}), c.database)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, not %q with %q", err, c.want, c.says)
			}
		})
	}
}

// testCalled changes what the server calls itself in headers and texts: buckets can still be
// created, written, read and limited.
func testCalled(t *testing.T, server *servertest.InfluxDB2) {
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range map[string]string{"called_dev": "dev", "called_none": "", "called_one": "1.8.10"} {
		t.Run(name, func(t *testing.T) {
			called := 0
			proxy := httputil.NewSingleHostReverseProxy(target)
			proxy.ModifyResponse = func(answer *http.Response) error {
				body, err := io.ReadAll(answer.Body)
				if err != nil {
					return err
				}
				for header, value := range answer.Header {
					if strings.Contains(value[0], "2.7.12") {
						called++
						answer.Header.Set(header, version)
					}
				}
				body = bytes.ReplaceAll(body, []byte("v2.7.12"), []byte(version))
				answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
				answer.Body = io.NopCloser(bytes.NewReader(body))
				return nil
			}
			s := open(t, Options{URL: serve(t, proxy.ServeHTTP), Org: server.Org, Token: server.Token})
			if err := s.Create(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if err := s.Write(t.Context(), name, []series.Sample{{Measurement: "m", Fields: map[string]any{"f": 1.5}, Time: time.Now().Add(-time.Minute)}}); err != nil {
				t.Fatal(err)
			}
			if v := get(t, s, name, wantFor("m", "f"))[0]; v.Number != 1.5 {
				t.Errorf("the value is %+v", v)
			}
			if err := s.Keep(t.Context(), name, series.Keeping{Retention: 48 * time.Hour}); err != nil {
				t.Fatal(err)
			}
			bucket, err := s.server.client.BucketsAPI().FindBucketByName(t.Context(), name)
			if err != nil || bucket.RetentionRules[0].EverySeconds != 48*3600 {
				t.Errorf("%+v, %v", bucket, err)
			}
			if err := s.Write(t.Context(), "none", []series.Sample{{Measurement: "m", Fields: map[string]any{"f": 1.5}, Time: time.Now()}}); !errors.Is(err, series.ErrNoDatabase) {
				t.Errorf("without a bucket the error is %v", err)
			}
			if called == 0 {
				t.Error("no answer had a version")
			}
		})
	}
}

// testUpgraded has a database as an upgrade from 1.x leaves it: a bucket whose name is
// not that of the database, and a mapping.
func testUpgraded(t *testing.T, server *servertest.InfluxDB2) {
	s := open(t, Options{URL: server.URL, Org: server.Org, Token: server.Token})
	org, err := s.server.client.OrganizationsAPI().FindOrganizationByName(t.Context(), server.Org)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := s.server.client.BucketsAPI().CreateBucketWithName(t.Context(), org, "old/autogen")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	if _, err := s.server.client.APIClient().PostDBRP(t.Context(), &domain.PostDBRPAllParams{Body: domain.PostDBRPJSONRequestBody{
		BucketID: *bucket.Id, Database: "old", RetentionPolicy: "autogen", Default: &yes, OrgID: org.Id,
	}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := s.Write(t.Context(), "old", []series.Sample{{Measurement: "m", Fields: map[string]any{"f": 1.5}, Time: now.Add(-time.Minute)}}); err != nil {
		t.Fatal(err)
	}
	if v := get(t, s, "old", wantFor("m", "f"))[0]; v.Number != 1.5 {
		t.Errorf("the value is %+v", v)
	}
	if err := s.Keep(t.Context(), "old", series.Keeping{Retention: 48 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	bucket, err = s.server.client.BucketsAPI().FindBucketByName(t.Context(), "old/autogen")
	if err != nil || bucket.RetentionRules[0].EverySeconds != 48*3600 {
		t.Errorf("%+v, %v", bucket, err)
	}
	if other, err := s.server.client.BucketsAPI().FindBucketByName(t.Context(), "old"); err == nil {
		t.Errorf("there is another bucket: %+v", other)
	}
}
