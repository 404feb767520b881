package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"tsmon/cmd/tsmon/scaffold"
	"tsmon/cmd/tsmon/tauri"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/store/record"
)

// TestJSONDocument: every field that --json prints stands in JSON.md.
func TestJSONDocument(t *testing.T) {
	data, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(data)
	for _, printed := range []any{
		keyReport{}, release.Signed{}, release.Report{}, release.Reach{}, release.Stored{}, release.Record{}, listedRelease{},
		channelState{}, logRow{}, release.VerifyReport{}, release.Finding{}, validation{}, manifest.Problem{}, manifest.Change{},
		checkReport{}, attemptOfCheck{}, manifest.Offer{}, manifest.Platform{}, updater.Event{}, updater.EventData{}, failure{},
		createdTenant{}, record.Tenant{}, record.Settings{}, importedContent{}, userToken{}, listedUser{}, writtenSeries{}, rotatedKey{}, record.Audit{}, demoFile{}, secrets{},
		record.Content{}, record.Variable{}, record.Menu{}, record.Permission{}, record.NotifyEntry{},
		adoption{}, versionCount{}, groupCount{}, newestCounts{}, curvePoint{}, notice{}, scaffold.Report{}, scaffold.Written{}, tauri.Finding{},
	} {
		for _, name := range jsonNames(reflect.TypeOf(printed)) {
			if !strings.Contains(document, "`"+name+"`") && !strings.Contains(document, `"`+name+`"`) {
				t.Errorf("%T: the field %s is not documented", printed, name)
			}
		}
	}
}

// jsonNames lists the members of a struct as they are printed.
func jsonNames(t reflect.Type) []string {
	var names []string
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && !field.Anonymous && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
