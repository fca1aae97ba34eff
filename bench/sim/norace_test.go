//go:build !race

package sim

const slow = 1
