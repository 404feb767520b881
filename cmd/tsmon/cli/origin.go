package cli

import "tsmon/channels"

// maxOrigin bounds a member of an origin, in bytes; longer ones are left out.
const maxOrigin = 500

// Origin returns where a move comes from in a CI job of GitHub
// (https://docs.github.com/en/actions/reference/workflows-and-actions/variables) or
// GitLab (https://docs.gitlab.com/ci/variables/predefined_variables/), nil elsewhere.
func (a *App) Origin() *channels.Origin {
	o := channels.Origin{}
	switch {
	case a.Variable("GITHUB_ACTIONS") == "true":
		o.Repository, o.Commit = a.Variable("GITHUB_SERVER_URL")+"/"+a.Variable("GITHUB_REPOSITORY"), a.Variable("GITHUB_SHA")
		o.Run = o.Repository + "/actions/runs/" + a.Variable("GITHUB_RUN_ID")
	case a.Variable("GITLAB_CI") == "true":
		o.Repository, o.Commit, o.Run = a.Variable("CI_PROJECT_URL"), a.Variable("CI_COMMIT_SHA"), a.Variable("CI_JOB_URL")
	default:
		return nil
	}
	for _, text := range []*string{&o.Repository, &o.Commit, &o.Run} {
		if len(*text) > maxOrigin {
			*text = ""
		}
	}
	return &o
}
