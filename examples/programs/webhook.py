"""An admission webhook that refuses objects with the label `forbidden`; needs nothing but Python.

Without a file system of its own, the program finds its volumes below the folder that MOORING_MOUNTS names.
"""

import json
import os
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CERTIFICATES = os.environ.get("MOORING_MOUNTS", "") + "/certificates"
PORT = int(os.environ.get("PORT", "8443"))


class Webhook(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(b"ok")

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = review["request"]
        labels = asked["object"]["metadata"].get("labels") or {}
        response = {"uid": asked["uid"], "allowed": "forbidden" not in labels}
        if not response["allowed"]:
            response["status"] = {"message": f"{os.environ['REASON']}: {asked['name']}"}
        print(asked["operation"], asked["name"], response["allowed"], flush=True)
        self.answer(json.dumps({**review, "response": response}).encode())

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library has named it
        """Only decisions are logged."""


server = ThreadingHTTPServer(("", PORT), Webhook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{CERTIFICATES}/tls.crt", f"{CERTIFICATES}/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(f"listening on {PORT}", flush=True)
server.serve_forever()
