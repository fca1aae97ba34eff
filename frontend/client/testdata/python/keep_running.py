"""Runs jobs against a frontend or a balancer, one after the other, until its input ends. It stands for a client without
failover: each job has a connection of its own.

    python3 keep_running.py HOST:PORT

It prints "ok" and the number of jobs that ended well. If a job fails, it names the job on stderr and exits with 1.
"""

import os
import sys
import threading

from idl import Client
from run_job import CALL_SECONDS, IDL, Api, run, submit_and_follow

TASKS = 10


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    api = Api(str(IDL), os.environ.get("PHOEBE_SECRET"))
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    jobs, failed = 0, 0
    while not ended.is_set():
        how = (run, submit_and_follow)[jobs % 2]
        try:
            client = Client(api, host, int(port), CALL_SECONDS)
            try:
                how(api, client, TASKS)
            finally:
                client.close()
        except Exception as problem:
            failed += 1
            print(f"job {jobs}, by {how.__name__}: {problem!r}", file=sys.stderr)
        jobs += 1
    if failed:
        sys.exit(1)
    print(f"ok {jobs}")


if __name__ == "__main__":
    main()
