package main

import (
	"crypto/sha256"
	"fmt"
	"sort"

	"github.com/anishathalye/porcupine"
)

// marker is one commit in a lake table; the newest stands at the end of the chain of those before it.
type marker struct {
	round   string
	offsets map[string]int64
	before  *marker
	depth   int
	id      string
}

func (m *marker) next(round string, offsets map[string]int64) *marker {
	hash := sha256.Sum256([]byte(m.id + "|" + round + "|" + text(offsets)))
	return &marker{round, offsets, m, m.depth + 1, fmt.Sprintf("%x", hash[:8])}
}

// find returns the newest marker of the chain for which is holds.
func (m *marker) find(is func(*marker) bool) *marker {
	for at := m; at != nil; at = at.before {
		if is(at) {
			return at
		}
	}
	return nil
}

// state of one table, as if all did one thing after the other. It is never changed: every step makes another.
type state struct {
	// The newest claim, and whether the coordinator said that it is over.
	epoch int64
	round string
	ended bool
	// Rounds that were granted their commit, with the base of it.
	granted map[string]string
	// By uuid, the newest marker of each lake table, and how deep in its chain the newest recorded ack is.
	lakes map[string]*marker
	acked map[string]int
}

var none = &marker{}

func (s *state) lake(uuid string) *marker {
	if newest, ok := s.lakes[uuid]; ok {
		return newest
	}
	return none
}

func (s *state) copy() *state {
	other := &state{s.epoch, s.round, s.ended, map[string]string{}, map[string]*marker{}, map[string]int{}}
	for round, base := range s.granted {
		other.granted[round] = base
	}
	for uuid, newest := range s.lakes {
		other.lakes[uuid] = newest
	}
	for uuid, depth := range s.acked {
		other.acked[uuid] = depth
	}
	return other
}

func (s *state) String() string {
	result := fmt.Sprintf("epoch %d, round %q, ended %v; granted", s.epoch, s.round, s.ended)
	rounds := make([]string, 0, len(s.granted))
	for round := range s.granted {
		rounds = append(rounds, round)
	}
	sort.Strings(rounds)
	for _, round := range rounds {
		result += fmt.Sprintf(" %q on %q", round, s.granted[round])
	}
	uuids := make([]string, 0, len(s.lakes))
	for uuid := range s.lakes {
		uuids = append(uuids, uuid)
	}
	sort.Strings(uuids)
	for _, uuid := range uuids {
		newest := s.lakes[uuid]
		result += fmt.Sprintf("; lake table %q at round %q (commit %d, %s), acked %d, offsets %s",
			uuid, newest.round, newest.depth, newest.id, s.acked[uuid], text(newest.offsets))
	}
	return result
}

// step returns the state after op, or nil if op cannot be what happens next with its answer.
func (s *state) step(op Op) *state {
	switch op.Kind {
	case "claim":
		return s.claim(op)
	case "grant":
		return s.grant(op)
	case "commit":
		if base, ok := s.granted[op.Round]; !ok || base != op.Base || behind(op.Offsets, s.lake(op.Lake).offsets) {
			return nil
		}
		return s.commit(op)
	case "repair": // the coordinator's own commit, which may go back
		return s.commit(op)
	case "read":
		newest := s.lake(op.Lake)
		if newest.round != op.Round || text(newest.offsets) != text(op.Offsets) {
			return nil
		}
		return s
	default:
		return s.ack(op)
	}
}

// claim: epochs grow; the running round may be handed over once more until its commit is granted. What the coordinator has on record is a
// commit of the lake table, and none before the newest one that was acked.
func (s *state) claim(op Op) *state {
	if op.Epoch < s.epoch {
		return nil
	}
	_, granted := s.granted[op.Round]
	if op.Epoch == s.epoch && (op.Round != s.round || granted || s.ended) {
		return nil
	}
	recorded := s.lake(op.Lake).find(func(m *marker) bool { return text(m.offsets) == text(op.Offsets) })
	if recorded == nil || recorded.depth < s.acked[op.Lake] {
		return nil
	}
	after := s.copy()
	after.epoch, after.round, after.ended = op.Epoch, op.Round, false
	return after
}

// grant: to the running round alone, and for one commit. After a refusal the round is over.
func (s *state) grant(op Op) *state {
	current := op.Epoch == s.epoch && op.Round == s.round
	base, granted := s.granted[op.Round]
	after := s.copy()
	if op.Answer == "fenced" {
		after.ended = s.ended || current && !granted
		return after
	}
	if !current || s.ended || granted && base != op.Base {
		return nil
	}
	after.granted[op.Round] = op.Base
	return after
}

// commit: compare-and-set on the uuid and the newest marker; a round lands once.
func (s *state) commit(op Op) *state {
	newest := s.lake(op.Lake)
	if newest.round != op.Base || newest.find(func(m *marker) bool { return m.round == op.Round }) != nil {
		return nil
	}
	after := s.copy()
	after.lakes[op.Lake] = newest.next(op.Round, op.Offsets)
	return after
}

// ack: of a marker that stands in the lake table.
func (s *state) ack(op Op) *state {
	if op.Answer == "refused" {
		return s
	}
	acked := s.lake(op.Lake).find(func(m *marker) bool { return m.round == op.Round })
	if acked == nil || acked.depth == 0 || text(acked.offsets) != text(op.Offsets) {
		return nil
	}
	after := s.copy()
	if acked.depth > s.acked[op.Lake] {
		after.acked[op.Lake] = acked.depth
	}
	return after
}

// behind tells whether a bucket of before goes back.
func behind(offsets, before map[string]int64) bool {
	for name, offset := range before {
		if reached, ok := offsets[name]; ok && reached < offset {
			return true
		}
	}
	return false
}

var model = porcupine.Model{
	Init: func() interface{} { return &state{} },
	Step: func(at interface{}, input interface{}, _ interface{}) (bool, interface{}) {
		after := at.(*state).step(input.(Op))
		if after == nil {
			return false, at
		}
		return true, after
	},
	Equal: func(a, b interface{}) bool { return a == b || a.(*state).String() == b.(*state).String() },
}
