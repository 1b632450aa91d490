// Creates a customer with a live key. The requests are signed (RFC 9421) with the public library http-message-signatures.
//
//     npm install
//     API_URL=… SECRET_KEY=svc_sk_live_… KEY_ID=key_… SIGNING_SECRET=svc_ss_… node sign.mjs

import { createHash, randomBytes } from "node:crypto";
import { createSigner, httpbis } from "http-message-signatures";

const { API_URL, SECRET_KEY, KEY_ID, SIGNING_SECRET } = process.env;

// The key is the text of the signing secret, not decoded.
const key = createSigner(Buffer.from(SIGNING_SECRET), "hmac-sha256", KEY_ID);

/** Signs a request and sends it unchanged. */
async function send(method, path, body, idempotencyKey) {
  const headers = { Authorization: `Bearer ${SECRET_KEY}` };
  const fields = ["@method", "@path", "@query"];
  const data = body === undefined ? undefined : JSON.stringify(body);
  if (data !== undefined) {
    headers["Content-Type"] = "application/json";
    headers["Content-Digest"] = `sha-256=:${createHash("sha256").update(data).digest("base64")}:`;
    fields.push("content-digest");
  }
  if (idempotencyKey !== undefined) {
    headers["Idempotency-Key"] = idempotencyKey;
    fields.push("idempotency-key");
  }
  const url = API_URL + path;
  const signed = await httpbis.signMessage(
    {
      key,
      fields,
      params: ["created", "keyid", "nonce", "alg"],
      // A nonce is accepted once, so each request and each retry needs a new one.
      paramValues: { nonce: randomBytes(16).toString("base64url") },
    },
    { method, url, headers },
  );
  // For the timeout see docs/api.md, Time limits of a client.
  return fetch(url, { method, headers: signed.headers, body: data, signal: AbortSignal.timeout(40_000) });
}

const listed = await send("GET", "/v1/payments?limit=1");
console.log(listed.status, await listed.text());
const created = await send("POST", "/v1/customers", { email: "ada@example.com" }, randomBytes(8).toString("hex"));
console.log(created.status, await created.text());
process.exit(listed.ok && created.ok ? 0 : 1);
