"""Runs jobs against a frontend with plain Apache Thrift, as a client in any other language would.

    python3 run_job.py [--tasks N] HOST:PORT

Put the secret of the cluster, if there is one, or a token of the tenant "python" into $PHOEBE_SECRET: every request
carries it. The program needs the packages of requirements.txt, and a fleet with the built-in function echo. It prints
one line that begins with "ok". If something goes wrong, it says so on stderr and exits with 1.
"""

import argparse
import os
import pathlib
import secrets
import sys
import time

from thrift.Thrift import TException

from idl import Client, Module

IDL = pathlib.Path(__file__).resolve().parents[4] / "idl" / "phoebe.thrift"
CALL_SECONDS = 30  # longest wait for one answer
JOB_SECONDS = 60  # longest wait for the end of a submitted job


class Api(Module):
    """The API, with the caller's secret in each request."""

    def __init__(self, path, secret):
        super().__init__(path)
        self._secret = secret

    def request(self, method, **fields):
        """A request for a method. Its first field is the caller."""
        return getattr(self, method + "Request")(caller=self.Caller(secret=self._secret), **fields)


class Wrong(Exception):
    """The frontend's answer breaks a promise of the API."""


def expect(condition, message):
    if not condition:
        raise Wrong(message)


def ulid():
    """48 bits of milliseconds, then 80 of chance, in Crockford's base 32."""
    bits = int(time.time() * 1000) << 80 | secrets.randbits(80)
    return "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[bits >> i & 31] for i in range(125, -1, -5))


def echo_job(api, tasks):
    # The payloads have sizes from 0 up, and hold bytes that are no UTF-8.
    payloads = [b"\xff\x00" * i for i in range(tasks)]
    return api.Job(
        id=ulid(),
        tenant="python",
        tasks=[api.Task(function_name="echo", payload=p, estimate_us=1000) for p in payloads],
    )


def check_outcomes(api, job, outcomes):
    """Every task has echoed its payload, once."""
    seen = set()
    for outcome in outcomes:
        where = f"job {job.id} task {outcome.task}"
        expect(0 <= outcome.task < len(job.tasks), f"{where}: there is no such task")
        expect(outcome.task not in seen, f"{where}: a second outcome")
        seen.add(outcome.task)
        expect(outcome.kind == api.OutcomeKind.RESULT, f"{where}: {outcome}")
        payload = job.tasks[outcome.task].payload
        result = outcome.result or b""
        expect(result == payload, f"{where}: sent {payload!r}, got {result!r}")
        expect(outcome.attempts >= 1 and outcome.worker, f"{where}: nobody ran it: {outcome}")
    missing = sorted(set(range(len(job.tasks))) - seen)
    expect(not missing, f"job {job.id}: no outcome of tasks {missing}")


def run(api, client, tasks):
    job = echo_job(api, tasks)
    answer = client.call("Run", api.request("Run", job=job))
    expect(answer.handle.job == job.id, f"ran job {job.id}, the handle says {answer.handle}")
    check_outcomes(api, job, answer.outcomes)


def submit_and_follow(api, client, tasks):
    job = echo_job(api, tasks)
    handle = client.call("Submit", api.request("Submit", job=job)).handle
    again = client.call("Submit", api.request("Submit", job=job)).handle
    expect(again == handle, f"job {job.id} submitted twice: {handle}, then {again}")

    outcomes, cursor, done = [], 0, False
    give_up = time.monotonic() + JOB_SECONDS
    while not done:
        expect(
            time.monotonic() < give_up,
            f"job {job.id}: {len(outcomes)} of {tasks} outcomes after {JOB_SECONDS} s",
        )
        request = api.request("Events", handle=handle, cursor=cursor, max_wait_us=1_000_000, max_events=7)
        answer = client.call("Events", request)
        expect(len(answer.events) <= 7, f"asked for 7 events, got {len(answer.events)}")
        outcomes += [e.outcome for e in answer.events if e.outcome is not None]
        cursor, done = answer.cursor, answer.done
    check_outcomes(api, job, outcomes)


def be_refused(api, client):
    function = "no-such-function"
    job = api.Job(id=ulid(), tasks=[api.Task(function_name=function, payload=b"")])
    try:
        answer = client.call("Run", api.request("Run", job=job))
    except api.Refused as refused:
        expect(refused.reason == api.RefusedReason.NO_WORKER, f"refused for another reason: {refused}")
        expect(function in refused.message, f"the refusal does not name {function}: {refused}")
    else:
        raise Wrong(f"function {function} was not refused: {answer}")


def run_stages_and_explain(api, client):
    job = api.Job(
        id=ulid(),
        stages=[api.Stage(name="scan", after=[]), api.Stage(name="join", after=["scan"])],
        tasks=[
            api.Task(function_name="echo", payload=b"joined", stage="join", inputs=[api.Input(bytes=1 << 30, stage="scan")]),
            api.Task(function_name="echo", payload=b"left", stage="scan"),
            api.Task(function_name="echo", payload=b"right", stage="scan"),
        ],
    )
    answer = client.call("Run", api.request("Run", job=job))
    check_outcomes(api, job, answer.outcomes)
    expect(answer.outcomes[-1].task == 0, f"job {job.id}: the stage join did not end last: {answer.outcomes}")
    told = client.call("Explain", api.request("Explain", handle=api.Handle(job=job.id, owner=""), task=0))
    (decision,) = told.decisions
    expect(
        decision.path == api.Path.ESTIMATION and decision.cause == api.Cause.BY_INPUTS,
        f"job {job.id} task 0: {decision}",
    )
    chosen = decision.candidates[decision.chosen]
    expect(chosen.worker == decision.worker == answer.outcomes[-1].worker, f"job {job.id} task 0: {decision}")


def extend(api, client):
    """An open job gets another stage after its only stage has ended. The last addition ends the job."""
    job = api.Job(
        id=ulid(),
        open=True,
        stages=[api.Stage(name="sample", after=[])],
        tasks=[api.Task(function_name="echo", payload=b"few", stage="sample")],
    )
    handle = client.call("Submit", api.request("Submit", job=job)).handle
    answer = client.call("Events", api.request("Events", handle=handle, max_wait_us=CALL_SECONDS * 500_000))
    expect(len(answer.events) == 1 and not answer.done, f"job {job.id}: it is open, and {answer}")
    added = [api.Task(function_name="echo", payload=b"broadcast", stage="join")]
    request = api.request(
        "Extend",
        handle=handle,
        from_task=1,
        stages=[api.Stage(name="join", after=["sample"])],
        tasks=added,
        last=True,
    )
    has = client.call("Extend", request).tasks
    expect(has == 2, f"job {job.id}: it has 2 tasks, not {has}")
    job.tasks += added
    outcomes = [e.outcome for e in answer.events]
    while not answer.done:
        answer = client.call("Events", api.request("Events", handle=handle, cursor=answer.cursor, max_wait_us=1_000_000))
        outcomes += [e.outcome for e in answer.events]
    check_outcomes(api, job, outcomes)


def main():
    parser = argparse.ArgumentParser(description="Runs jobs against a phoebe frontend.")
    parser.add_argument("address", metavar="HOST:PORT", help="the frontend's API address")
    parser.add_argument("--tasks", type=int, default=20, help="echo tasks in each job (default 20)")
    args = parser.parse_args()
    host, _, port = args.address.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"{args.address}: want HOST:PORT")
    if args.tasks < 1:
        parser.error(f"--tasks {args.tasks}: want at least 1")

    api = Api(os.fspath(IDL), os.environ.get("PHOEBE_SECRET"))
    try:
        client = Client(api, host.strip("[]"), int(port), CALL_SECONDS)
        run(api, client, args.tasks)
        submit_and_follow(api, client, args.tasks)
        run_stages_and_explain(api, client)
        extend(api, client)
        be_refused(api, client)  # and the connection lives on:
        fleet = client.call("Cluster", api.request("Cluster"))
        expect(fleet.workers, f"frontend {fleet.frontend} knows of no worker")
        client.close()
    except (Wrong, api.Refused, TException, OSError, EOFError) as problem:
        sys.exit(f"run_job: {args.address}: {type(problem).__name__}: {str(problem) or repr(problem)}")
    print(
        f"ok: frontend {fleet.frontend} with {len(fleet.workers)} workers ran 2 jobs of {args.tasks} tasks"
        " and two with stages, and refused 1"
    )


if __name__ == "__main__":
    main()
