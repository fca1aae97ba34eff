package data

import (
	"context"
	"fmt"
	"os"
	"testing"
)

func TestX(t *testing.T) {
	d := os.Getenv("D")
	if err := Gen(d, 0.01, 4, os.Stderr); err != nil {
		t.Fatal(err)
	}
	m, err := Read(d)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Catalog{Manifest: m}.Planner()
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range m.Queries {
		pl, err := p.Plan(context.Background(), q)
		fmt.Println("=== Q", i+1, err)
		if err != nil {
			continue
		}
		for _, s := range pl.Stages {
			fmt.Println(s.Name, s.Tasks, s.Class, s.Tables, s.Inputs, s.Buckets, s.Columns)
			fmt.Println("    ", s.SQL)
		}
	}
}
