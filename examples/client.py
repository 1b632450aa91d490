"""An API client that uses only the standard library."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request

URL, KEY = os.environ["url"], os.environ["key"]


def call(method, path, body=None, idempotency_key=None):
    """Returns the HTTP status and the JSON body of any response."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    if idempotency_key:
        headers["Idempotency-Key"] = idempotency_key
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, headers=headers, method=method)
    try:
        # For the timeout see docs/api.md, Time limits of a client.
        with urllib.request.urlopen(request, timeout=40) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        if error.code == 429:
            time.sleep(int(error.headers["Retry-After"]))
        return error.code, json.load(error)


def pay_once(body, idempotency_key, tries=5):
    """Creates a payment, and retries until the response is conclusive. The idempotency key makes this safe."""
    for attempt in range(tries):
        if attempt:
            time.sleep(2**attempt)
        try:
            status, payment = call("POST", "/v1/payments", body, idempotency_key)
        except (OSError, http.client.HTTPException):
            continue  # The payment may have been charged; the same idempotency key makes the retry safe.
        if status not in (408, 429) and status < 500:
            return status, payment
    raise RuntimeError(f"no conclusive response for {idempotency_key}; do not treat the payment as failed")
