"""A complete shop in Python without libraries: a page with a card field, the payment, a result page, and the webhook of the
payment.

    . examples/sandbox.sh
    PUBLISHABLE_KEY=$publishable_key WEBHOOK_SECRET=whsec_… PORT=3000 python3 examples/shop/shop.py

It uses examples/client.py for requests, and the pages of examples/elements.
"""

import base64
import hashlib
import hmac
import http.client
import http.cookies
import json
import os
import pathlib
import secrets
import sqlite3
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from client import URL, call, pay_once

PRICE = {"amount": 2700, "currency": "USD"}
PAGES = pathlib.Path(__file__).parent.parent / "elements"
CHECKOUT = (PAGES / "index.html").read_text(encoding="utf-8")
CHECKOUT = CHECKOUT.replace("{{API_URL}}", URL).replace("{{PUBLISHABLE_KEY}}", os.environ["PUBLISHABLE_KEY"])
RETURN_PAGE = (PAGES / "return.html").read_text(encoding="utf-8")
WAITING = "The payment is being processed. Please do not order again; this page shows the outcome."
MESSAGES = {"action": "Your bank asks you to confirm the payment.", "paid": "Thank you. It is paid."}
NOT_ENOUGH = "There is not enough money on the card. Nothing was charged; please try another one."
TRY_AGAIN = {
    "declined": "The card was declined. Nothing was charged; please try another one.",
    "failed": "The payment could not be made. Nothing was charged; please try again.",
    "cancelled": NOT_ENOUGH,
    "refunded": NOT_ENOUGH,
}
NEXT = {"open": ("/", "Try again"), "waiting": ("/return", "Refresh"), "paid": ("/new", "Order again")}

# A real shop uses a persistent database. An order is "open" for a payment, "waiting" for an outcome, "paid", or needs an "action"
# of the cardholder. `body` is the request that was sent to pay it.
db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
db.row_factory = sqlite3.Row
db.execute(
    """CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT DEFAULT 'open', message TEXT DEFAULT '', attempt INTEGER DEFAULT 1,
       body TEXT, payment TEXT, action_url TEXT)"""
)
db.execute("CREATE TABLE payments (id TEXT PRIMARY KEY, order_id TEXT)")
db.execute("CREATE TABLE events (id TEXT PRIMARY KEY)")
db_lock = threading.Lock()


def execute(sql, *values):
    """Executes a statement and returns its first row, if any."""
    with db_lock:
        return db.execute(sql, values).fetchone()


def new_order():
    order = secrets.token_hex(16)
    execute("INSERT INTO orders (id) VALUES (?)", order)
    return order


def read(order):
    return execute("SELECT * FROM orders WHERE id = ?", order)


def change(order, **fields):
    """Changes an order, unless it has been paid or its attempt has ended in the meantime."""
    assignments = ", ".join(f"{name} = ?" for name in fields)
    unchanged = "id = ? AND attempt = ? AND state != 'paid'"
    execute(f"UPDATE orders SET {assignments} WHERE {unchanged}", *fields.values(), order["id"], order["attempt"])


def refresh(order):
    """Updates an order from its payment. Until the payment's id is known, it sends the same body with the same Idempotency-Key:
    the API repeats the first response, even if that was lost, and never charges twice."""
    order = read(order)
    if order["body"] is None or order["state"] == "paid":
        return
    try:
        if order["payment"]:
            status, payment = call("GET", f"/v1/payments/{order['payment']}")
        else:
            status, payment = pay_once(json.loads(order["body"]), f"order-{order['id']}-{order['attempt']}", tries=2)
            if status != 201:
                # The request was rejected, for example because the token has expired: nothing was charged, and the key can be
                # used again.
                message = "The card could not be used. Nothing was charged; please try again."
                return change(order, state="open", message=message, body=None)
            execute("INSERT INTO payments VALUES (?, ?) ON CONFLICT DO NOTHING", payment["id"], order["id"])
            change(order, payment=payment["id"])
        apply_payment(order, payment if status in (200, 201) else {"status": "unknown", "amount": PRICE["amount"]})
    except (OSError, http.client.HTTPException, RuntimeError, ValueError):
        # Without a response the outcome is unknown; the next request refreshes the order again.
        change(order, state="waiting", message=WAITING)


def apply_payment(order, payment):
    """Applies the state of a payment to its order."""
    status = payment["status"]
    if payment["amount"] < PRICE["amount"] and status in ("partially_authorized", "settled"):
        # The order cannot be paid in part: void the payment before it settles, or refund it afterwards.
        action = "refund" if status == "settled" else "void"
        _, result = call("POST", f"/v1/payments/{payment['id']}/{action}")
        status = result.get("status") if result.get("status") == "cancelled" else "waiting"
    if status in ("pending_settlement", "settled"):
        change(order, state="paid", message=MESSAGES["paid"])
    elif status == "requires_action":
        change(order, state="action", message=MESSAGES["action"], action_url=payment["nextAction"]["url"])
    elif status in TRY_AGAIN:
        # The attempt has ended without a charge. The next one is a new payment with a new key.
        attempt = order["attempt"] + 1
        change(order, state="open", message=TRY_AGAIN[status], attempt=attempt, body=None, payment=None)
    else:
        change(order, state="waiting", message=WAITING)


def pay(order, token, return_url):
    """Pays an order. The request is stored before it is sent; a new token is used only if no request was stored."""
    body = json.dumps({**PRICE, "paymentToken": token, "returnUrl": return_url})
    execute("UPDATE orders SET body = coalesce(body, ?) WHERE id = ?", body, order)
    refresh(order)
    order = read(order)
    outcome = {"order": order["id"], "message": order["message"]}
    if order["state"] != "open":
        outcome["continueAt"] = order["action_url"] if order["state"] == "action" else "/return"
    return outcome


def is_genuine(headers, body):
    """Whether a delivery is recent and signed with the secret (docs/webhooks.md, Verifying)."""
    timestamp = int(headers["webhook-timestamp"])
    key = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    signatures = headers["webhook-signature"].split()
    return abs(time.time() - timestamp) <= 300 and any(hmac.compare_digest(expected, value) for value in signatures)


def handle_event(event):
    """Refreshes the order of the event's payment, and records the event. Returns the HTTP status."""
    payment = event["data"]["object"]
    if payment["object"] != "payment":
        return 204
    row = execute("SELECT order_id FROM payments WHERE id = ?", payment["id"])
    if not row:
        return 503  # The event arrived before the payment's id was stored. It will be delivered again.
    refresh(row["order_id"])
    execute("INSERT INTO events VALUES (?) ON CONFLICT DO NOTHING", event["id"])
    return 204


class Shop(BaseHTTPRequestHandler):
    def order(self):
        """The order of this browser. A new order starts only after the previous one is paid."""
        cookie = http.cookies.SimpleCookie(self.headers.get("Cookie", "")).get("order")
        row = cookie and read(cookie.value)
        if row and not (self.path == "/new" and row["state"] == "paid"):
            return row["id"]
        return new_order()

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.startswith("/orders/"):
            row = read(path.removeprefix("/orders/"))
            events = execute("SELECT count(*) FROM events")[0]
            return self.respond(200 if row else 404, json.dumps({"state": row and row["state"], "events": events}))
        if path not in ("/", "/return", "/new"):
            return self.respond(404)
        order = self.order()
        refresh(order)
        row, headers = read(order), {"Set-Cookie": f"order={order}; HttpOnly; SameSite=Lax; Path=/"}
        if path == "/return":
            return self.show_outcome(row, headers)
        if row["state"] != "open" or path == "/new":
            return self.respond(303, "", Location="/return" if row["state"] != "open" else "/", **headers)
        self.respond(200, CHECKOUT.replace("{{MESSAGE}}", row["message"]), "text/html; charset=utf-8", **headers)

    def show_outcome(self, order, headers):
        action = (order["action_url"], "Continue with your bank")
        target, label = action if order["state"] == "action" else NEXT[order["state"]]
        page = RETURN_PAGE.replace("{{MESSAGE}}", order["message"] or "Nothing has been paid yet.")
        page = page.replace("{{NEXT}}", target).replace("{{LABEL}}", label)
        if order["state"] == "waiting":
            headers = {**headers, "Refresh": "3"}
        self.respond(200, page, "text/html; charset=utf-8", **headers)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/pay":
            order, port = self.order(), self.server.server_port
            outcome = pay(order, json.loads(body)["paymentToken"], f"http://localhost:{port}/return")
            cookie = {"Set-Cookie": f"order={order}; HttpOnly; SameSite=Lax; Path=/"}
            return self.respond(200, json.dumps(outcome), **cookie)
        try:
            genuine = is_genuine(self.headers, body)
        except (KeyError, TypeError, ValueError, AttributeError):
            genuine = False
        self.respond(handle_event(json.loads(body)) if genuine else 400)

    def respond(self, status, text="", kind="application/json", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Cache-Control": "no-store", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    shop = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 3000))), Shop)
    print(f"listening on http://localhost:{shop.server_port}/", flush=True)
    shop.serve_forever()
