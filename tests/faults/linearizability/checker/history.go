package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"

	"github.com/anishathalye/porcupine"
)

// Op is one operation of a history: a line of JSON.
//
// Answers: claim "assigned"; grant "granted" or "fenced"; commit and repair "landed"; read "read"; ack "recorded" or "refused". Any
// of them may be "unknown": the history does not tell whether or when it took effect, so it never returns.
type Op struct {
	Client int    `json:"client"`
	Call   int64  `json:"call"`
	Return *int64 `json:"return"`
	Table  string `json:"table"`
	Kind   string `json:"op"`
	Epoch  int64  `json:"epoch"`
	Round  string `json:"round"`
	// Base is the round of the marker that a grant or a commit goes on from.
	Base string `json:"base"`
	// Lake is the uuid of the lake table.
	Lake string `json:"lake"`
	// Offsets are those of the marker; of a claim, what the coordinator has on record. Absent = nothing.
	Offsets map[string]int64 `json:"offsets"`
	Answer  string           `json:"answer"`
}

func (op Op) unknown() bool { return op.Answer == "unknown" }

func (op Op) commits() bool { return op.Kind == "commit" || op.Kind == "repair" }

func (op Op) String() string {
	return fmt.Sprintf("%s by client %d: epoch %d, round %q on base %q in lake table %q, offsets %s -> %s",
		op.Kind, op.Client, op.Epoch, op.Round, op.Base, op.Lake, text(op.Offsets), op.Answer)
}

// text is the same for equal offsets.
func text(offsets map[string]int64) string {
	if offsets == nil {
		return "none"
	}
	names := make([]string, 0, len(offsets))
	for name := range offsets {
		names = append(names, name)
	}
	sort.Strings(names)
	result := ""
	for _, name := range names {
		result += fmt.Sprintf("%s=%d ", name, offsets[name])
	}
	return result
}

func readHistory(path string) ([]Op, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var ops []Op
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 0, 1<<16), 1<<24)
	for lines.Scan() {
		var op Op
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(ops)+1, err)
		}
		if !known[op.Kind][op.Answer] {
			return nil, fmt.Errorf("line %d: no %q is answered %q", len(ops)+1, op.Kind, op.Answer)
		}
		if op.unknown() != (op.Return == nil) {
			return nil, fmt.Errorf("line %d: an operation returns unless its outcome is unknown", len(ops)+1)
		}
		ops = append(ops, op)
	}
	return ops, lines.Err()
}

var known = map[string]map[string]bool{
	"claim":  {"assigned": true, "unknown": true},
	"grant":  {"granted": true, "fenced": true, "unknown": true},
	"commit": {"landed": true, "unknown": true},
	"repair": {"landed": true, "unknown": true},
	"read":   {"read": true, "unknown": true},
	"ack":    {"recorded": true, "refused": true, "unknown": true},
}

// landing names what at most one commit of a history can do.
type landing struct{ table, lake, round string }

// settled leaves out operations of unknown outcome that need not have taken effect, so that the search stays small.
//
// What is left of them took effect: a commit whose round a later process met. All requests of one commit with an unknown outcome are one
// operation that begins with the first. Nothing else of unknown outcome can be missed by what came later: a claim shows in its
// grant alone, an ack only forbids, and no commit is sent without the answer to its grant.
func settled(ops []Op) []Op {
	landed, met := map[landing]bool{}, map[landing]bool{}
	for _, op := range ops {
		if op.commits() && !op.unknown() {
			landed[landing{op.Table, op.Lake, op.Round}] = true
		}
		if (op.Kind == "read" || op.Kind == "ack") && !op.unknown() {
			met[landing{op.Table, op.Lake, op.Round}] = true
		}
		if op.commits() {
			met[landing{op.Table, op.Lake, op.Base}] = true
		}
	}
	var kept []Op
	at := map[landing]int{}
	for _, op := range ops {
		if !op.unknown() {
			kept = append(kept, op)
			continue
		}
		commit := landing{op.Table, op.Lake, op.Round}
		if !op.commits() || landed[commit] || !met[commit] {
			continue
		}
		if first, ok := at[commit]; ok {
			kept[first].Call = min(kept[first].Call, op.Call)
			continue
		}
		at[commit] = len(kept)
		kept = append(kept, op)
	}
	return kept
}

func byTable(ops []Op) (tables []string, operations map[string][]porcupine.Operation) {
	operations = map[string][]porcupine.Operation{}
	for _, op := range ops {
		if operations[op.Table] == nil {
			tables = append(tables, op.Table)
		}
		end := int64(math.MaxInt64)
		if op.Return != nil {
			end = *op.Return
		}
		operations[op.Table] = append(operations[op.Table],
			porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Output: op.Answer, Return: end})
	}
	sort.Strings(tables)
	return tables, operations
}
