package demo

import (
	"embed"
	"encoding/json"
	"fmt"

	"tsmon/store/record"
)

// Menu items that the tenant's settings name.
const (
	SaveMenu    = 4 // whose grant allows saving diagrams
	PublishMenu = 8 // whose grant allows publishing
)

// adminMenu is the menu item of the permissions.
const adminMenu = 9

// files are contents as `tsmon tenant import` takes them, a part in each. What
// charts and images show of a variable is repeated there.
//
//go:embed content/*.json
var files embed.FS

// Content is what the tenant of the network owns. Its permissions grant all
// menu items to a user, and to a profile those that change nothing; both ids are
// above zero.
func Content(user, profile int64) record.Content {
	var c record.Content
	for _, part := range []string{"variables", "diagrams", "access", "charts"} {
		data, err := files.ReadFile("content/" + part + ".json")
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		if err != nil {
			panic(fmt.Sprintf("the embedded %s: %v", part, err)) // only a wrong build
		}
	}
	for _, menu := range c.Menus {
		c.Permissions = append(c.Permissions, record.Permission{
			ID: menu.ID, Menu: menu.ID, User: &user, Status: true,
		}, record.Permission{
			ID: 100 + menu.ID, Menu: menu.ID, Profile: &profile, Status: !changes(menu.ID),
		})
	}
	return c
}

func changes(menu int64) bool {
	return menu == SaveMenu || menu == PublishMenu || menu == adminMenu
}
