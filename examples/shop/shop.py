"""A whole shop, in Python without libraries: a page with a card field, the payment, the page that shows the outcome, and the
webhook that says it too.

    . examples/sandbox.sh
    PUBLISHABLE_KEY=$publishable_key WEBHOOK_SECRET=whsec_… PORT=3000 python3 examples/shop/shop.py

It sends its requests by examples/client.py, and shows the pages of examples/elements.
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
OUTCOME = (PAGES / "return.html").read_text(encoding="utf-8")
WAITING = "The payment is being processed. Please do not order again; this page shows the outcome."
SAID = {"action": "Your bank asks you to confirm the payment.", "paid": "Thank you. It is paid."}
NOT_ENOUGH = "The card has not enough on it. Nothing was charged; please try another one."
TRY_AGAIN = {
    "declined": "The card was declined. Nothing was charged; please try another one.",
    "failed": "The payment could not be made. Nothing was charged; please try again.",
    "cancelled": NOT_ENOUGH,
    "refunded": NOT_ENOUGH,
}
NEXT = {"open": ("/", "Try again"), "waiting": ("/return", "Look again"), "paid": ("/new", "Order again")}

# A real shop keeps these in its database. An order is "open" for a payment, "waiting" for an outcome or for the "action" of the
# cardholder, or "paid". `body` is what was sent to pay it.
books = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
books.row_factory = sqlite3.Row
books.execute(
    """CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT DEFAULT 'open', message TEXT DEFAULT '', attempt INTEGER DEFAULT 1,
       body TEXT, payment TEXT, action_url TEXT)"""
)
books.execute("CREATE TABLE payments (id TEXT PRIMARY KEY, order_id TEXT)")
books.execute("CREATE TABLE events (id TEXT PRIMARY KEY)")
one_at_a_time = threading.Lock()


def run(sql, *values):
    """One statement: its first row, if it answers any."""
    with one_at_a_time:
        return books.execute(sql, values).fetchone()


def new_order():
    order = secrets.token_hex(16)
    run("INSERT INTO orders (id) VALUES (?)", order)
    return order


def read(order):
    return run("SELECT * FROM orders WHERE id = ?", order)


def change(order, **fields):
    """Changes an order, unless its attempt is over meanwhile or it is paid."""
    names = ", ".join(f"{name} = ?" for name in fields)
    still = "id = ? AND attempt = ? AND state != 'paid'"
    run(f"UPDATE orders SET {names} WHERE {still}", *fields.values(), order["id"], order["attempt"])


def look(order):
    """Asks how the payment of an order stands. Until its id is known, the same body is sent under the same Idempotency-Key: the
    first answer is repeated, whether or not it had reached us, and nothing is charged twice."""
    order = read(order)
    if order["body"] is None or order["state"] == "paid":
        return
    try:
        if order["payment"]:
            status, payment = call("GET", f"/v1/payments/{order['payment']}")
        else:
            status, payment = pay_once(json.loads(order["body"]), f"order-{order['id']}-{order['attempt']}", tries=2)
            if status != 201:
                # Refused, so nothing was charged, and the key is not used up: such as a token that has expired meanwhile.
                again = "The card could not be used. Nothing was charged; please try again."
                return change(order, state="open", message=again, body=None)
            run("INSERT INTO payments VALUES (?, ?) ON CONFLICT DO NOTHING", payment["id"], order["id"])
            change(order, payment=payment["id"])
        became(order, payment if status in (200, 201) else {"status": "unknown", "amount": PRICE["amount"]})
    except (OSError, http.client.HTTPException, RuntimeError, ValueError):
        # An answer that did not come: it is asked for again by the next request.
        change(order, state="waiting", message=WAITING)


def became(order, payment):
    """What a payment makes of its order."""
    status = payment["status"]
    if payment["amount"] < PRICE["amount"] and status in ("partially_authorized", "settled"):
        # Half a tin is no use: what was approved goes back, by a void before it settles and by a refund afterwards.
        how = "refund" if status == "settled" else "void"
        _, answer = call("POST", f"/v1/payments/{payment['id']}/{how}")
        status = answer.get("status") if answer.get("status") == "cancelled" else "waiting"
    if status in ("pending_settlement", "settled"):
        change(order, state="paid", message=SAID["paid"])
    elif status == "requires_action":
        change(order, state="action", message=SAID["action"], action_url=payment["nextAction"]["url"])
    elif status in TRY_AGAIN:
        # The attempt has taken nothing. The next one is another payment, under another key.
        attempt = order["attempt"] + 1
        change(order, state="open", message=TRY_AGAIN[status], attempt=attempt, body=None, payment=None)
    else:
        change(order, state="waiting", message=WAITING)


def pay(order, token, return_url):
    """Takes the payment of an order. What is sent is written down first, and a new token counts only if nothing was sent."""
    body = json.dumps({**PRICE, "paymentToken": token, "returnUrl": return_url})
    run("UPDATE orders SET body = coalesce(body, ?) WHERE id = ?", body, order)
    look(order)
    order = read(order)
    outcome = {"order": order["id"], "message": order["message"]}
    if order["state"] != "open":
        outcome["continueAt"] = order["action_url"] if order["state"] == "action" else "/return"
    return outcome


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
    known = run("SELECT order_id FROM payments WHERE id = ?", payment["id"])
    if not known:
        return 503  # It has come before the answer to our own request was written down. It will come again.
    look(known["order_id"])
    run("INSERT INTO events VALUES (?) ON CONFLICT DO NOTHING", event["id"])
    return 204


class Shop(BaseHTTPRequestHandler):
    def order(self):
        """The order of this browser: one, until it is paid and another is begun."""
        cookie = http.cookies.SimpleCookie(self.headers.get("Cookie", "")).get("order")
        row = cookie and read(cookie.value)
        if row and not (self.path == "/new" and row["state"] == "paid"):
            return row["id"]
        return new_order()

    def do_GET(self):
        path = self.path.split("?")[0]
        if path.startswith("/orders/"):
            row = read(path.removeprefix("/orders/"))
            heard = run("SELECT count(*) FROM events")[0]
            return self.answer(200 if row else 404, json.dumps({"state": row and row["state"], "events": heard}))
        if path not in ("/", "/return", "/new"):
            return self.answer(404)
        order = self.order()
        look(order)
        row, headers = read(order), {"Set-Cookie": f"order={order}; HttpOnly; SameSite=Lax; Path=/"}
        if path == "/return":
            return self.show_outcome(row, headers)
        if row["state"] != "open" or path == "/new":
            return self.answer(303, "", Location="/return" if row["state"] != "open" else "/", **headers)
        self.answer(200, CHECKOUT.replace("{{MESSAGE}}", row["message"]), "text/html; charset=utf-8", **headers)

    def show_outcome(self, order, headers):
        action = (order["action_url"], "Continue with your bank")
        place, label = action if order["state"] == "action" else NEXT[order["state"]]
        page = OUTCOME.replace("{{MESSAGE}}", order["message"] or "Nothing has been paid yet.")
        page = page.replace("{{NEXT}}", place).replace("{{LABEL}}", label)
        if order["state"] == "waiting":
            headers = {**headers, "Refresh": "3"}
        self.answer(200, page, "text/html; charset=utf-8", **headers)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/pay":
            order, port = self.order(), self.server.server_port
            outcome = pay(order, json.loads(body)["paymentToken"], f"http://localhost:{port}/return")
            cookie = {"Set-Cookie": f"order={order}; HttpOnly; SameSite=Lax; Path=/"}
            return self.answer(200, json.dumps(outcome), **cookie)
        try:
            genuine = is_ours(self.headers, body)
        except (KeyError, TypeError, ValueError, AttributeError):
            genuine = False
        self.answer(hear(json.loads(body)) if genuine else 400)

    def answer(self, status, text="", kind="application/json", **headers):
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
