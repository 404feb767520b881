package updates_test

import (
	"maps"
	"testing"

	"tsmon/api/fleet"
	"tsmon/api/updates"
	"tsmon/channels"
)

// TestUnserved: clients are unserved if their updater gets no bundle that it can install.
func TestUnserved(t *testing.T) {
	newest := &channels.Release{Version: "1.1.0", Platforms: map[string]channels.Bundle{}}
	for key, file := range map[string]string{
		"linux-x86_64": "App.AppImage.tar.gz", "linux-aarch64": "App.appimage", "linux-aarch64-rpm": "App.rpm", "linux-armv7": "App.deb",
		"darwin-x86_64": "App.app.tar.gz", "darwin-aarch64": "App.tar.gz",
		"windows-x86_64": "App_x64-setup.nsis.zip", "windows-i686": "App.zip", "windows-aarch64": "App.msi", "windows-aarch64-nsis": "App.exe",
	} {
		newest.Platforms[key] = channels.Bundle{Path: "releases/1.1.0/" + file}
	}
	for group, want := range map[fleet.GroupCount]bool{
		{Target: "linux-x86_64", Type: "appimage"}: true, {Target: "linux-x86_64", Type: "deb"}: false, {Target: "linux-x86_64"}: true,
		{Target: "linux-aarch64", Type: "appimage"}: true, {Target: "linux-aarch64", Type: "rpm"}: true, {Target: "linux-aarch64", Type: "deb"}: false,
		{Target: "linux-armv7", Type: "deb"}: true, {Target: "linux-armv7", Type: "appimage"}: false, {Target: "linux-i686", Type: "deb"}: false,
		{Target: "darwin-x86_64", Type: "app"}: true, {Target: "darwin-aarch64", Type: "app"}: true,
		{Target: "windows-x86_64", Type: "nsis"}: true, {Target: "windows-x86_64", Type: "msi"}: false,
		{Target: "windows-i686", Type: "nsis"}: true, {Target: "windows-i686", Type: "msi"}: true,
		{Target: "windows-aarch64", Type: "nsis"}: true, {Target: "windows-aarch64", Type: "msi"}: true,
		{Target: fleet.Other}: true,
	} {
		group.Clients = 3
		counts := map[string]int{}
		if !want {
			counts[group.Target+"-"+group.Type] = 3
		}
		if got := updates.Unserved(newest, []fleet.GroupCount{group}); !maps.Equal(got, counts) {
			t.Errorf("%s %s: %v", group.Target, group.Type, got)
		}
	}
}
