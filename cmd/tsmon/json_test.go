package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"tsmon/api/fleet"
	"tsmon/api/fleet/verdict"
	"tsmon/api/fleet/verdict/simulate"
	"tsmon/cmd/tsmon/admin"
	"tsmon/cmd/tsmon/cli"
	"tsmon/cmd/tsmon/config"
	"tsmon/cmd/tsmon/doctor"
	"tsmon/cmd/tsmon/guarding"
	"tsmon/cmd/tsmon/keys"
	"tsmon/cmd/tsmon/releasing"
	"tsmon/cmd/tsmon/scaffold"
	"tsmon/cmd/tsmon/serving"
	"tsmon/cmd/tsmon/showing"
	"tsmon/cmd/tsmon/tauri"
	"tsmon/cmd/tsmon/updating"
	"tsmon/manifest"
	"tsmon/manifest/updater"
	"tsmon/release"
	"tsmon/release/bundle"
	"tsmon/release/feed"
	"tsmon/release/gate"
	"tsmon/release/library"
	"tsmon/release/rotation"
	"tsmon/release/upkeep"
	"tsmon/store/record"
)

// TestJSONDocument: JSON.md documents every field that --json prints.
func TestJSONDocument(t *testing.T) {
	data, err := os.ReadFile("JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	document := string(data)
	for _, printed := range []any{
		keys.Key{}, rotation.Plan{}, rotation.Key{}, rotation.Channel{}, rotation.Lost{}, gate.Stranded{}, rotation.Step{}, bundle.Signed{}, release.Plan{}, gate.Reach{}, library.Stored{}, library.Record{}, releasing.ListedRelease{}, releasing.ShownRelease{}, release.StageReport{}, library.Staged{}, library.StagedBundle{}, release.Discarded{},
		feed.Report{}, feed.Channel{}, feed.Release{}, showing.ChannelState{}, showing.LogRow{}, upkeep.VerifyReport{}, upkeep.Finding{}, updating.Validation{}, manifest.Problem{}, manifest.Change{},
		updating.CheckReport{}, updating.CheckAttempt{}, manifest.Offer{}, manifest.Platform{}, updater.Event{}, updater.EventData{}, cli.Failure{},
		admin.CreatedTenant{}, record.Tenant{}, record.Settings{}, admin.ImportedContent{}, admin.ListedVersion{}, admin.RestoredDiagram{}, admin.Deletion{}, admin.Part{}, admin.Use{}, admin.UserToken{}, admin.ListedUser{}, admin.WrittenSeries{}, serving.RotatedKey{}, record.Audit{}, serving.DemoFile{}, serving.Secrets{},
		record.Content{}, record.Variable{}, record.Menu{}, record.Permission{}, record.NotifyEntry{},
		fleet.Adoption{}, fleet.VersionCount{}, fleet.GroupCount{}, fleet.NewestCounts{}, fleet.CurvePoint{}, fleet.Opinion{}, fleet.OutcomeGroup{}, fleet.Spread{}, verdict.Verdict{}, verdict.Share{}, verdict.Ageing{}, verdict.Sums{}, verdict.Age{}, guarding.State{}, simulate.Options{}, simulate.Report{}, simulate.Row{}, simulate.Result{}, simulate.Spread{}, fleet.Notice{}, fleet.Sampled{}, build{}, doctor.Report{}, doctor.Finding{}, doctor.Checked{}, config.Setting{}, scaffold.Report{}, scaffold.Written{}, tauri.Finding{},
	} {
		for _, name := range jsonNames(reflect.TypeOf(printed)) {
			if !strings.Contains(document, "`"+name+"`") && !strings.Contains(document, `"`+name+`"`) {
				t.Errorf("%T: the field %s is not documented", printed, name)
			}
		}
	}
}

// jsonNames returns the names of the members of a struct in JSON.
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
