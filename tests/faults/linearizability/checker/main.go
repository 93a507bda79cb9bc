// Checker tells whether a history of claims, grants, commits, reads and acks is linearizable: whether each could have happened at one
// moment between its call and its return, in an order that the protocol allows. porcupine searches for that order.
//
// Usage: checker HISTORY, a file of JSON lines (Op). Exit status 0: it is; 1: it is not; 2: not a history, or no verdict in time.
package main

import (
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	longest = 2 * time.Minute // for each table
	shown   = 5               // operations of which none can come next
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: checker HISTORY")
		os.Exit(2)
	}
	all, err := readHistory(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	kept := settled(all)
	tables, operations := byTable(kept)
	status := 0
	for _, table := range tables {
		result, info := porcupine.CheckOperationsVerbose(model, operations[table], longest)
		if result != porcupine.Ok {
			fmt.Printf("%s: table %s\n", result, table)
			explain(operations[table], info)
			status = max(status, map[porcupine.CheckResult]int{porcupine.Illegal: 1, porcupine.Unknown: 2}[result])
		}
	}
	if status == 0 {
		fmt.Printf("Ok: %d operations on %d tables; %d of unknown outcome need not have taken effect\n",
			len(kept), len(tables), len(all)-len(kept))
	}
	os.Exit(status)
}

// explain prints how far the longest order goes, and what none of which can come next.
func explain(operations []porcupine.Operation, info porcupine.LinearizationInfo) {
	var order []int
	for _, partition := range info.PartialLinearizations() {
		for _, candidate := range partition {
			if len(candidate) > len(order) {
				order = candidate
			}
		}
	}
	at, placed := &state{}, map[int]bool{}
	for _, index := range order {
		at, placed[index] = at.step(operations[index].Input.(Op)), true
	}
	fmt.Printf("  %d of %d operations have an order; then: %s\n", len(order), len(operations), at)
	var left []porcupine.Operation
	for index, operation := range operations {
		if !placed[index] {
			left = append(left, operation)
		}
	}
	sort.Slice(left, func(i, j int) bool { return left[i].Call < left[j].Call })
	for index, operation := range left {
		if index < shown {
			fmt.Printf("  cannot follow: %s\n", operation.Input.(Op))
		}
	}
}
