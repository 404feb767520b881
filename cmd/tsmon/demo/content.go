package demo

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"

	"tsmon/store/record"
)

// Menu items for the tenant's settings.
const (
	SaveMenu    = 4 // its permission allows saving diagrams
	PublishMenu = 8 // its permission allows publishing
)

// adminMenu is the menu item of the permissions.
const adminMenu = 9

// files are in the format of `tsmon tenant import`. Charts and images repeat the properties of
// variables that they show.
//
//go:embed content/*.json
var files embed.FS

// Content returns the tenant's content. The user may use all menu items, the profile only those
// that change nothing. Both IDs are positive.
func Content(user, profile int64) record.Content {
	var c record.Content
	for _, part := range []string{"variables", "diagrams", "access", "charts"} {
		data, err := files.ReadFile("content/" + part + ".json")
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		if err != nil {
			panic(fmt.Sprintf("the embedded %s: %v", part, err)) // a broken build
		}
	}
	for _, menu := range c.Menus {
		c.Permissions = append(c.Permissions, record.Permission{
			ID: menu.ID, Menu: menu.ID, User: &user, Status: true,
		}, record.Permission{
			ID: 100 + menu.ID, Menu: menu.ID, Profile: &profile, Status: !slices.Contains([]int64{SaveMenu, PublishMenu, adminMenu}, menu.ID),
		})
	}
	return c
}
