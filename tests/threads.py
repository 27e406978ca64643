"""Work in several threads at once, whose errors are the test's."""

from __future__ import annotations

import threading


def in_threads(count, work):
    """Run work(i) in threads that start together; the first error of any is raised here."""
    barrier, errors = threading.Barrier(count), []

    def run(i):
        barrier.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
