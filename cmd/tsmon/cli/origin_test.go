package cli

import (
	"strings"
	"testing"

	"tsmon/channels"
)

func TestOrigin(t *testing.T) {
	github := []string{"GITHUB_ACTIONS=true", "GITHUB_SERVER_URL=https://github.com", "GITHUB_REPOSITORY=water/app", "GITHUB_SHA=0123abcd", "GITHUB_RUN_ID=77"}
	gitlab := []string{"GITLAB_CI=true", "CI_PROJECT_URL=https://gitlab.com/water/app", "CI_COMMIT_SHA=4567cdef", "CI_JOB_URL=https://gitlab.com/water/app/-/jobs/9"}
	for name, c := range map[string]struct {
		environ []string
		want    *channels.Origin
	}{
		"github":    {github, &channels.Origin{Repository: "https://github.com/water/app", Commit: "0123abcd", Run: "https://github.com/water/app/actions/runs/77"}},
		"gitlab":    {gitlab, &channels.Origin{Repository: "https://gitlab.com/water/app", Commit: "4567cdef", Run: "https://gitlab.com/water/app/-/jobs/9"}},
		"too long":  {append([]string{"CI_COMMIT_SHA=" + strings.Repeat("0", 501)}, gitlab...), &channels.Origin{Repository: "https://gitlab.com/water/app", Run: "https://gitlab.com/water/app/-/jobs/9"}},
		"elsewhere": {[]string{"GITHUB_SHA=0123abcd", "CI=true"}, nil},
	} {
		got := (&App{Environ: c.environ}).Origin()
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
