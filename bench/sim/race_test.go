//go:build race

package sim

// slow is how much fewer jobs and seeds the tests take where the race detector makes each cost more.
const slow = 5
