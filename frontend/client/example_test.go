package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/phoebe-sched/phoebe/frontend/client"
	"github.com/phoebe-sched/phoebe/frontend/client/local"
)

func Example() {
	cluster, err := local.Start(local.Config{}) // or name the frontends of a running one
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	outcomes, err := c.Run(context.Background(), client.Job{Tasks: []client.Task{
		{Function: "echo", Payload: []byte("hello")},
		{Function: "echo", Payload: []byte("again")},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range outcomes {
		fmt.Println(o.Task, string(o.Result))
	}
	// Output:
	// 0 hello
	// 1 again
}

func ExampleClient_Submit() {
	cluster, err := local.Start(local.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx, cancel := context.WithCancel(context.Background()) // cancel ends the job
	defer cancel()
	running, err := c.Submit(ctx, client.Job{Tasks: []client.Task{
		{Function: "sleep", Payload: []byte("200ms")},
		{Function: "fail", Payload: []byte("no such table")},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for o, err := range running.Results() {
		if err != nil {
			fmt.Println("task", o.Task, "failed")
			continue
		}
		fmt.Println("task", o.Task, "is done")
	}
	// Output:
	// task 1 failed
	// task 0 is done
}

// The tasks of a stage start when all of those that it comes after have results, near where these are.
func ExampleStage() {
	cluster, err := local.Start(local.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	c, err := client.New(cluster.Frontends())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	running, err := c.Submit(ctx, client.Job{
		Stages: []client.Stage{{Name: "scan"}, {Name: "join", After: []string{"scan"}}},
		Tasks: []client.Task{
			{Stage: "scan", Function: "echo", Payload: []byte("left")},
			{Stage: "scan", Function: "sleep", Payload: []byte("20ms")},
			{Stage: "join", Function: "echo", Payload: []byte("joined"), Inputs: []client.Input{{Stage: "scan", Bytes: 1 << 30}}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for o, err := range running.Results() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("task %d: %q\n", o.Task, o.Result)
	}
	x, err := c.Explain(ctx, running.Handle(), 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("task 2 went by %s because of its %s\n", x.Decisions[0].Path, x.Decisions[0].Cause)
	// Output:
	// task 0: "left"
	// task 1: ""
	// task 2: "joined"
	// task 2 went by estimation because of its inputs
}
