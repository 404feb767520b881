package demo

import "math"

// zone is a pressure zone with the tank that supplies it.
type zone struct {
	name    string
	area    float64 // of the tank, m²
	full    float64 // level up to which the tank is filled, m
	demand  float64 // usual, l/s
	workday *[24]float64
	weekend *[24]float64
}

var zones = [...]zone{
	{name: "norte", area: 340, full: 4.5, demand: 26, workday: &homesWorkday, weekend: &homesWeekend},
	{name: "centro", area: 300, full: 4.2, demand: 24, workday: &shopsWorkday, weekend: &shopsWeekend},
	{name: "sur", area: 220, full: 3.8, demand: 15, workday: &homesWorkday, weekend: &homesWeekend},
}

// Demand at each full hour, as a multiple of the usual demand.
var (
	homesWorkday = [24]float64{
		.42, .34, .30, .30, .36, .62, 1.20, 1.62, 1.48, 1.22, 1.10, 1.08,
		1.22, 1.26, 1.08, .96, .94, 1.04, 1.26, 1.48, 1.42, 1.12, .80, .58,
	}
	homesWeekend = [24]float64{
		.50, .40, .34, .32, .34, .42, .62, .95, 1.30, 1.55, 1.58, 1.48,
		1.42, 1.38, 1.24, 1.10, 1.04, 1.08, 1.20, 1.32, 1.30, 1.08, .84, .66,
	}
	shopsWorkday = [24]float64{
		.40, .34, .30, .30, .34, .50, .88, 1.25, 1.48, 1.58, 1.56, 1.52,
		1.48, 1.44, 1.46, 1.42, 1.34, 1.22, 1.12, 1.04, .92, .78, .62, .50,
	}
	shopsWeekend = [24]float64{
		.40, .34, .30, .30, .32, .40, .55, .75, .92, 1.04, 1.08, 1.06,
		1.02, .98, .92, .86, .84, .86, .92, .94, .88, .76, .60, .50,
	}
)

// peak returns an upper bound of the demand, in l/s.
func (z *zone) peak() float64 { return 1.9 * z.demand }

func (z *zone) fullVolume() float64 { return z.area * z.full }

// at returns the flow into zone k, in l/s.
func (z *zone) at(k int, at int64) float64 {
	local := at + utcOffset
	index := floor(local, hour) / hour
	part := float64(local-index*hour) / hour
	factor := (1-part)*z.hourly(index) + part*z.hourly(index+1)
	seed := uint64(seedDemand + k)
	return z.demand * factor * (1 + .07*noise(seed, at, 30*minute) + .03*noise(seed, at, 40))
}

// hourly returns the multiple of the usual demand at an hour, counted from
// 1970-01-01 00:00 local time, a Thursday.
func (z *zone) hourly(index int64) float64 {
	weekday := (floor(index, 24)/24 + 4) % 7
	if weekday == 0 || weekday == 6 {
		return z.weekend[index-floor(index, 24)]
	}
	return z.workday[index-floor(index, 24)]
}

// Seeds of the noise. Each zone and site has its own: the seed plus its index.
const (
	seedDemand  = 100
	seedStuck   = 200
	seedBattery = 300
	seedValve   = 400
)

const (
	seedIntake = iota + 1
	seedChlorine
	seedNetwork
	seedTurbidity
	seedRain
	seedAcidity
	seedTemperature
	seedVoltage
	seedSuction
	seedDischarge
)

// noise returns a number from -1 to 1 that varies smoothly with time. Values more
// than two periods apart, in seconds, are independent.
func noise(seed uint64, at, period int64) float64 {
	index := floor(at, period) / period
	part := float64(at-index*period) / float64(period)
	part *= part * (3 - 2*part)
	return (1-part)*lattice(seed, index) + part*lattice(seed, index+1)
}

// lattice returns a random number from -1 to 1.
func lattice(seed uint64, index int64) float64 {
	return float64(hash(seed, index))/(math.MaxUint64/2) - 1
}

// hash is the finalizer of SplitMix64.
func hash(seed uint64, index int64) uint64 {
	x := seed*0xd1342543de82ef95 + uint64(index)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
