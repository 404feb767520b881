export const en = {
  // Shell
  pages: "Pages", skip: "Skip to content", network: "Network", charts: "Charts", boards: "Dashboards", diagrams: "Diagrams",
  devices: "Devices", access: "Access", keys: "Keyboard shortcuts", keySearch: "Search", keyPeriods: "Period of charts",
  keyEdit: "Edit the diagram", keySave: "Save the diagram", keyUndo: "Undo", close: "Close", logout: "Log out",
  theme: "Colors: {theme}", themeAuto: "as the system", themeLight: "light", themeDark: "dark",
  // States
  loading: "Loading…", failedTitle: "This could not be loaded.", failedStatus: "The server answered {status}.",
  unreachable: "The server can't be reached.", retry: "Try again", forbiddenTitle: "You have no access to this.",
  updated: "Updated", staleSince: "No new values since {time}.", staleHolds: "The values shown are from",
  noMatch: "Nothing matches.", search: "Search",
  // Login
  login: "Log in", logIn: "Log in", loggingIn: "Logging in…", email: "E-mail", tokenApp: "Partner application token",
  schemaName: "Schema of the client", tsName: "Time-series database", loginRefused: "The login was refused: check all four fields.",
  endedExpired: "Your session has expired. Please log in again.", endedLeft: "You are logged out.",
  demoText: "This server runs a demo: a small water network with live values.", demoOpen: "Open the demo",
  demoPreparing: "The demo is being prepared. Try again in a few seconds.",
  // Values
  noData: "No data", on: "On", off: "Off", noVariables: "No variables are configured yet. An administrator imports them:",
  searchVariables: "Search {count} variables", abnormal: "Abnormal", outOfLimits: "out of limits",
  lastMeasured: "no new value since {time} ({age})", computed: "computed", sparkline: "{name}, last 24 hours: {low} to {high}",
  // Charts
  addVariable: "Add a variable", typeName: "Type a name", chooseVariables: "Add variables by typing their names to see their history.",
  period: "Period", ownPeriod: "Own…", from: "From", to: "to", show: "Show", keyIs: "Key {key}", noUnit: "without unit",
  least: "min", greatest: "max", remove: "Remove {name}", chartHint: "Drag to zoom in, double-click to go back.",
  // Dashboards
  noBoards: "No dashboards are configured yet. An administrator imports them:",
  // Diagrams
  diagram: "Diagram", diagramId: "Number of the diagram", open: "Open", newDiagram: "New diagram",
  noRecents: "Diagrams are opened by their number. Those that you have opened are listed here.",
  noDiagram: "There is no diagram {id}.", diagramAlt: "Diagram {title} with {count} objects", otherDiagram: "Other diagrams", edit: "Edit",
  // Editor
  toolSelect: "Select", toolLine: "Line", toolPolyline: "Polyline", toolText: "Text", toolImage: "Picture",
  undo: "Undo", redo: "Redo", save: "Save", saving: "Saving…", savedDone: "Saved", unsaved: "Not saved yet", leaveEditor: "Leave",
  objects: "Objects", properties: "Properties", isNew: "(new)", canvasLabel: "Drawing. Choose a tool, then press Enter to place an object; arrow keys move it.",
  chosenCount: "{count} objects", chosenHint: "Arrow keys move them, Delete removes them.", delete: "Delete",
  title: "Title", backgroundColor: "Background color", backgroundImg: "Background picture (address)", width: "Width", height: "Height",
  color: "Color", thickness: "Thickness", flow: "Shows flow", invertFlow: "Against the line's direction", closed: "Closed", filled: "Filled",
  fill: "Fill", fontSize: "Size", address: "Address", angle: "Angle", place: "Place", shown: "Shown", variable: "Variable", unbind: "Show no variable",
  symbol: "Symbol", symbolOther: "other picture", symbolTank: "Tank", symbolPump: "Pump", symbolValve: "Valve", symbolReservoir: "Reservoir",
  symbolStation: "Pumping station", symbolMeter: "Flow meter", symbolGauge: "Pressure gauge", symbolDoser: "Doser", symbolSensor: "Sensor", symbolPanel: "Panel", symbolZone: "Zone",
  upload: "Upload a picture", file: "File", accessKey: "Access key", secretKey: "Secret key",
  conflictTitle: "Somebody else has saved this diagram", conflictText: "Objects that differ: {count}. Nothing is lost until you choose.",
  conflictMine: "Yours, not saved", conflictTheirs: "Theirs, saved", keepMine: "Save yours over theirs", takeTheirs: "Discard yours and load theirs",
  // Devices
  notifyTitle: "Notifications of devices", noNotify: "No notifications are configured yet. An administrator imports them:",
  eventCount: "{count} events, {alarms} with alarm", chooseDevice: "Choose a version of a device to see its events and send its configuration.",
  alarmEvents: "Events that raise an alarm", event: "Event {id}", changed: "changed", topic: "Topic", source: "Member of the message",
  send: "Send", sending: "Sending…", notSent: "Not sent:", sentTo: "The broker took the message for {topic} at {time}.",
  matched: "A device is subscribed and gets it.", unmatched: "No device is subscribed to this topic at the moment.", reasonCode: "(MQTT reason code {code})",
  // Access
  accessTitle: "Who sees what", user: "User", profile: "Profile", profileAlone: "profile alone",
  accessHint: "Only administrators see other users and profiles.", noMenus: "No menu items are configured yet. An administrator imports them:",
  menuItem: "Menu item", path: "Path", byProfile: "Profile {id}", byUser: "User {id}", result: "Result",
  granted: "granted", denied: "denied", inactive: "inactive", sees: "sees it", seesNot: "does not see it",
};
