"""Receives events. The public library standardwebhooks verifies each delivery first.

    pip install -r requirements.txt
    WEBHOOK_SECRET=whsec_… PORT=8000 python receive.py
"""

import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])


class Receiver(BaseHTTPRequestHandler):
    # Keeps connections open between deliveries.
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        # Verify the received bytes: reformatted JSON would not match the signature.
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            event = webhook.verify(body, dict(self.headers))
        except (WebhookVerificationError, ValueError):
            self.respond(400)
            return
        # Store the event by its id, because it may be delivered more than once. Do anything slow after the response, which is
        # due within 15 seconds.
        print(event["type"], event["id"], flush=True)
        self.respond(204)

    def respond(self, status):
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
