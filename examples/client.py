"""An API client that uses only the standard library."""

import base64
import hashlib
import hmac
import http.client
import json
import os
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request

URL, KEY = os.environ["url"], os.environ["key"]
# Set these for a live key, whose requests must be signed.
KEY_ID, SIGNING_SECRET = os.environ.get("key_id"), os.environ.get("signing_secret")


def signature(method, url, headers, data):
    """The headers that sign a request, as in docs/api.md, Signing. A retry needs new ones, because a nonce is accepted once."""
    parts = urllib.parse.urlsplit(url)
    signed, added = {"@method": method, "@path": parts.path, "@query": f"?{parts.query}"}, {}
    if data is not None:
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        signed["content-digest"] = added["Content-Digest"] = f"sha-256=:{digest}:"
    if "Idempotency-Key" in headers:
        signed["idempotency-key"] = headers["Idempotency-Key"]
    names = " ".join(f'"{name}"' for name in signed)
    nonce = secrets.token_urlsafe(16)
    parameters = f'({names});created={int(time.time())};keyid="{KEY_ID}";nonce="{nonce}";alg="hmac-sha256"'
    lines = [f'"{name}": {value}' for name, value in [*signed.items(), ("@signature-params", parameters)]]
    mac = hmac.digest(SIGNING_SECRET.encode(), "\n".join(lines).encode(), "sha256")
    return {**added, "Signature-Input": f"sig1={parameters}", "Signature": f"sig1=:{base64.b64encode(mac).decode()}:"}


def call(method, path, body=None, idempotency_key=None):
    """Returns the HTTP status and the JSON body of any response."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    if idempotency_key:
        headers["Idempotency-Key"] = idempotency_key
    data = None if body is None else json.dumps(body).encode()
    if SIGNING_SECRET:
        headers.update(signature(method, URL + path, headers, data))
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
