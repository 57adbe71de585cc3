"""Loads a web server: web_load.py PORT THREADS REQUESTS. Each thread keeps one connection. Prints the sum of answers."""

import http.client
import sys
import threading
import time

port, threads, requests = map(int, sys.argv[1:])
answers = [0] * threads


def connected(deadline):
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.connect()
            return connection
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # until the next attempt; the limit is the deadline


def work(number):
    connection = connected(time.monotonic() + 20)
    for _ in range(requests):
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
        answers[number] += answer.status == 200
    connection.close()


workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(sum(answers))
