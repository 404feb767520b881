package monitor

// WritesInterval is for tests outside of the package.
const WritesInterval = writesInterval
