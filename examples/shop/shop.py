"""A whole shop, in Python without libraries: a page with a card field, the payment, and the webhook that says that it is paid.

    . examples/sandbox.sh
    PUBLISHABLE_KEY=$publishable_key WEBHOOK_SECRET=whsec_… PORT=3000 python3 examples/shop/shop.py

It leans on examples/client.py for its requests, and shows the page of examples/elements.
"""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import secrets
import sqlite3
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

from client import URL, call, pay_once

PRICE = {"amount": 2700, "currency": "USD"}
PAGE = pathlib.Path(__file__).parent.parent.joinpath("elements", "index.html").read_text(encoding="utf-8")
PAGE = PAGE.replace("{{API_URL}}", URL).replace("{{PUBLISHABLE_KEY}}", os.environ["PUBLISHABLE_KEY"])
SAID = {
    "paid": "Thank you. It is paid.",
    "declined": "The card was declined. Nothing was charged; please try another one.",
    "waiting": "The payment is being processed. We will tell you what has come of it.",
    "failed": "The payment could not be made. Please try again.",
}

# A real shop keeps these in its database, where the numbers of orders do not begin anew with each start.
START = secrets.token_hex(4)
books = sqlite3.connect(":memory:")
books.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, payment TEXT UNIQUE)")
books.execute("CREATE TABLE events (id TEXT PRIMARY KEY)")


def state(payment):
    """What a payment makes of its order."""
    if payment["status"] in ("pending_settlement", "settled"):
        return "paid"
    if payment["status"] in ("processing", "requires_action"):
        return "waiting"
    return "declined" if payment["status"] == "declined" else "failed"


def pay(token, return_url):
    """Takes the payment of a new order. The order is written down first: its number is the name of the payment."""
    with books:
        order = books.execute("INSERT INTO orders (state) VALUES ('waiting')").lastrowid
    status, payment = pay_once({**PRICE, "paymentToken": token, "returnUrl": return_url}, f"order-{START}-{order}")
    if status == 201 and payment["status"] == "partially_authorized":
        call("POST", f"/v1/payments/{payment['id']}/void")  # Half a tin is no use.
    with books:
        new = state(payment) if status == 201 else "failed"
        books.execute("UPDATE orders SET state = ?, payment = ? WHERE id = ?", [new, payment.get("id"), order])
    if payment.get("status") == "requires_action":
        return {"order": order, "continueAt": payment["nextAction"]["url"]}
    return {"order": order, "message": SAID[new]}


def is_ours(headers, body):
    """Whether we were sent this by who knows the secret, just now (docs/webhooks.md, Verifying)."""
    sent = int(headers["webhook-timestamp"])
    key = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{sent}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    signatures = headers["webhook-signature"].split()
    return abs(time.time() - sent) <= 300 and any(hmac.compare_digest(expected, one) for one in signatures)


def hear(event):
    """Acts on an event, once: the order becomes what its payment is now. Answers the HTTP status."""
    payment = event["data"]["object"]
    if payment["object"] != "payment":
        return 204
    known = books.execute("SELECT 1 FROM orders WHERE payment = ?", [payment["id"]]).fetchone()
    if not known:
        return 503  # It has come before the answer to our own request was written down. It will come again.
    _, payment = call("GET", f"/v1/payments/{payment['id']}")
    with books:
        if books.execute("INSERT INTO events VALUES (?) ON CONFLICT DO NOTHING", [event["id"]]).rowcount:
            books.execute("UPDATE orders SET state = ? WHERE payment = ?", [state(payment), payment["id"]])
    return 204


class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        if not self.path.startswith("/orders/"):
            return self.answer(200, PAGE, "text/html; charset=utf-8")
        row = books.execute("SELECT state FROM orders WHERE id = ?", [self.path.removeprefix("/orders/")]).fetchone()
        heard = books.execute("SELECT count(*) FROM events").fetchone()[0]
        self.answer(200 if row else 404, json.dumps({"state": row and row[0], "events": heard}))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/pay":
            port = self.server.server_port
            return self.answer(200, json.dumps(pay(json.loads(body)["paymentToken"], f"http://localhost:{port}/")))
        try:
            genuine = is_ours(self.headers, body)
        except (KeyError, TypeError, ValueError, AttributeError):
            genuine = False
        self.answer(hear(json.loads(body)) if genuine else 400)

    def answer(self, status, text="", kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    shop = HTTPServer(("127.0.0.1", int(os.environ.get("PORT", 3000))), Shop)
    print(f"listening on http://localhost:{shop.server_port}/", flush=True)
    shop.serve_forever()
