"""Creates a customer with a live key. The requests are signed (RFC 9421) with the public library http-message-signatures.

    pip install -r requirements.txt
    API_URL=… SECRET_KEY=svc_sk_live_… KEY_ID=key_… SIGNING_SECRET=svc_ss_… python sign.py
"""

import json
import os
import secrets
import sys

import requests
from http_message_signatures import HTTPMessageSigner, HTTPSignatureKeyResolver, algorithms


class SigningSecret(HTTPSignatureKeyResolver):
    """The key is the text of the signing secret, not decoded."""

    def resolve_private_key(self, key_id):
        return os.environ["SIGNING_SECRET"].encode()

    def resolve_public_key(self, key_id):
        return self.resolve_private_key(key_id)


def send(method, path, body=None, idempotency_key=None):
    """Signs a request and sends it unchanged."""
    headers = {"Authorization": f"Bearer {os.environ['SECRET_KEY']}"}
    covered = ["@method", "@path", "@query"]
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    if idempotency_key is not None:
        headers["Idempotency-Key"] = idempotency_key
        covered.append("idempotency-key")

    request = requests.Request(method, os.environ["API_URL"] + path, headers=headers, data=data).prepare()
    signer = HTTPMessageSigner(signature_algorithm=algorithms.HMAC_SHA256, key_resolver=SigningSecret())
    # A nonce is accepted once, so each request and each retry needs a new one.
    nonce = secrets.token_urlsafe(16)
    # Given the body, the library adds a Content-Digest (RFC 9530) and signs it.
    signer.sign(request, key_id=os.environ["KEY_ID"], covered_component_ids=covered, nonce=nonce, body=data)
    with requests.Session() as session:
        # For the timeout see docs/api.md, Time limits of a client.
        return session.send(request, timeout=40)


if __name__ == "__main__":
    response = send("GET", "/v1/payments?limit=1")
    print(response.status_code, response.text)
    customer = send("POST", "/v1/customers", {"email": "ada@example.com"}, idempotency_key=secrets.token_hex(8))
    print(customer.status_code, customer.text)
    sys.exit(0 if response.ok and customer.ok else 1)
