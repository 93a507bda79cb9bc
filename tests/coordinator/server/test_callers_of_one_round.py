"""Several callers of tier_table: one round, and all who still wait get its result. One that is killed leaves the round running."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from support.running.processes import wait_for
from support.services.served import OPTIONS, at_uri
from support.worlds.coordinator_world import World
from tiering.client import LakewardClient

CALLER = "import sys; from tiering.client import LakewardClient; LakewardClient(sys.argv[1]).tier_table('sales.orders', caller='gone')"


def test_two_callers_get_the_result_of_one_round_which_a_killed_third_does_not_end() -> None:
    world = World(options=OPTIONS)
    world.append()
    tierer = world.tierer()
    tierer.beat()
    waiting = world.coordinator.open_calls.list
    with at_uri(world) as uri, LakewardClient(uri) as client, ThreadPoolExecutor(2) as threads:
        third = subprocess.Popen([sys.executable, "-c", CALLER, uri])
        try:
            wait_for("the third calls", lambda: len(waiting()) == 1)
            calls = [threads.submit(client.tier_table, "sales.orders", caller=name) for name in ("ann", "bob")]
            wait_for("all of them wait", lambda: len(waiting()) == 3)
            assignment = tierer.get()
            tierer.plan(assignment)
            third.kill()
            wait_for("its call has ended", lambda: {call.caller for call in waiting()} == {"ann", "bob"})
            assert world.state() == "Tiering"
            tierer.run(assignment)
            results = [call.result(30) for call in calls]
        finally:
            third.kill()
            third.wait()
    assert [(result.round_id, result.state) for result in results] == [(assignment.round_id, "SUCCEEDED")] * 2
    assert [row.round_id for row in world.store.rounds()] == [assignment.round_id]
