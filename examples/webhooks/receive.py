"""Hears of events: each delivery is verified by the public library standardwebhooks before it is believed.

    pip install -r requirements.txt
    WEBHOOK_SECRET=whsec_… PORT=8000 python receive.py
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])


class Receiver(BaseHTTPRequestHandler):
    # Connections are kept, which saves both sides the making of new ones.
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        # The bytes as they came: another rendering of the same JSON has another signature.
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            event = webhook.verify(body, dict(self.headers))
        except (WebhookVerificationError, ValueError):
            self.answer(400)
            return
        # Here goes what must be done at once: note the event, under its id, for it may come more than once. What takes
        # time is done after the answer, which has to come within 15 seconds.
        print(event["type"], event["id"], flush=True)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8000))), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
