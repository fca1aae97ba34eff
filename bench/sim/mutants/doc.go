// Package mutants tests the tests of the cores: it breaks one of their rules at a time and sees to it that the
// scripts, the other tests of that core, the stories of both or the simulator's faults notice. The rules are in table_test.go.
package mutants
