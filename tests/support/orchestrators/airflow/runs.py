"""Runs in Airflow's environment: runs DAGs of the folder AIRFLOW__CORE__DAGS_FOLDER with `dag.test()`.

Standard input is a JSON list of ids of DAGs. Standard output's last line is a JSON object: for each DAG, its state and its tasks, each with
its state, the number of its tries, its XCom and the texts of its errors.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.models.xcom import XComModel
from airflow.utils import db
from airflow.utils.session import create_session
from noted_errors import ERRORS


def outcome(dag: Any) -> dict[str, Any]:
    ERRORS.clear()
    run = dag.test()
    tasks = {}
    with create_session() as session:
        for task in run.get_task_instances(session=session):
            stored = XComModel.get_many(run_id=run.run_id, dag_ids=dag.dag_id, task_ids=task.task_id, key="return_value")
            value = session.scalars(stored).first()
            tasks[task.task_id] = {
                "state": str(task.state),
                "tries": task.try_number,
                "value": None if value is None else XComModel.deserialize_value(value),
                "errors": [text for name, text in ERRORS if name == task.task_id],
            }
    return {"state": str(run.state), "tasks": tasks}


if __name__ == "__main__":
    db.initdb()
    bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    assert not bag.import_errors, bag.import_errors
    print("\n" + json.dumps({name: outcome(bag.dags[name]) for name in json.load(sys.stdin)}))
