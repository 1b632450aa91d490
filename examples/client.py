"""Asks the API, with the standard library alone."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request

URL, KEY = os.environ["url"], os.environ["key"]


def call(method, path, body=None, idempotency_key=None):
    """The HTTP status and the answer, whatever they are."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    if idempotency_key:
        headers["Idempotency-Key"] = idempotency_key
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, headers=headers, method=method)
    try:
        # Why 40 s: docs/api.md, Time limits of a client.
        with urllib.request.urlopen(request, timeout=40) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        if error.code == 429:
            time.sleep(int(error.headers["Retry-After"]))
        return error.code, json.load(error)


def pay_once(body, name, tries=5):
    """A payment under a name of yours, repeated until there is an answer that counts. However often: it is one payment."""
    for attempt in range(tries):
        if attempt:
            time.sleep(2**attempt)
        try:
            status, answer = call("POST", "/v1/payments", body, idempotency_key=name)
        except (OSError, http.client.HTTPException):
            continue  # No answer: it may have been charged, and the same name asks again.
        if status not in (408, 429) and status < 500:
            return status, answer
    raise RuntimeError(f"no answer for {name}; do not take it as failed")
