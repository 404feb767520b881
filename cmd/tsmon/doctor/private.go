package doctor

import (
	"context"
	"net/http"
	"strings"
)

// privateFolders are the folders of a store that clients don't read, and what they hold.
var privateFolders = []struct{ folder, holds string }{
	{"log/", "who moved a channel, when and why"},
	{"segments/", "who moved a channel, when and why"},
	{"plans/", "the moves that wait for signatures"},
	{"staged/", "releases before they are published"},
	{"uploads/", "what users uploaded"},
}

// private warns of each folder whose first object anybody can read at the public address, and
// that nobody needs there. A folder without objects is not judged.
func (p publicArea) private(ctx context.Context, n *notes) {
	for _, f := range privateFolders {
		for info, err := range p.store.List(ctx, f.folder, "") {
			if err != nil {
				return // the area of the storage says so
			}
			n.at(p.config.PublicURL + "/" + info.Key)
			got, err := p.fetch(ctx, n.where, http.Header{"Accept-Encoding": {"identity"}})
			if err == nil && got.StatusCode == http.StatusOK && got.ContentLength == info.Size {
				n.warn("let everybody read "+strings.Join(p.config.ChannelNames(), "/, ")+"/ and releases/ alone, with the policy in the guide (release/README.md, Configure the storage)",
					"anybody can read %s: %s", f.folder, f.holds)
			}
			break
		}
	}
}
