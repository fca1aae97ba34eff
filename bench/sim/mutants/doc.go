// Package mutants tests the tests of the cores. A mutant breaks one rule of a core. For each mutant, a script, another
// test of the core, a story or a simulation with faults must fail. The mutants of each package are in a file of their
// own: frontend_test.go, worker_test.go and so on.
package mutants
