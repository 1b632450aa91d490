// An API client without libraries.
import { createHash, createHmac, randomBytes } from "node:crypto";

// The last two are for a live key, whose requests must be signed.
const { url, key, key_id: keyId, signing_secret: signingSecret } = process.env;
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** The headers that sign a request, as in docs/api.md, Signing. A retry needs new ones, because a nonce is accepted once. */
function signature(method, target, headers, data) {
  const { pathname, search } = new URL(target);
  const [signed, added] = [{ "@method": method, "@path": pathname, "@query": search || "?" }, {}];
  if (data !== undefined) {
    const digest = createHash("sha256").update(data).digest("base64");
    signed["content-digest"] = added["content-digest"] = `sha-256=:${digest}:`;
  }
  if (headers["idempotency-key"]) signed["idempotency-key"] = headers["idempotency-key"];
  const names = Object.keys(signed).map((name) => `"${name}"`).join(" ");
  const nonce = randomBytes(16).toString("base64url");
  const created = Math.floor(Date.now() / 1000);
  const parameters = `(${names});created=${created};keyid="${keyId}";nonce="${nonce}";alg="hmac-sha256"`;
  const lines = Object.entries({ ...signed, "@signature-params": parameters });
  const base = lines.map(([name, value]) => `"${name}": ${value}`).join("\n");
  const mac = createHmac("sha256", signingSecret).update(base).digest("base64");
  return { ...added, "signature-input": `sig1=${parameters}`, signature: `sig1=:${mac}:` };
}

/** Returns the HTTP status and the JSON body of any response. */
export async function call(method, path, body, idempotencyKey) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  if (idempotencyKey) headers["idempotency-key"] = idempotencyKey;
  const data = body && JSON.stringify(body);
  if (signingSecret) Object.assign(headers, signature(method, url + path, headers, data));
  // For the timeout see docs/api.md, Time limits of a client.
  const signal = AbortSignal.timeout(40_000);
  const response = await fetch(url + path, { method, headers, signal, body: data });
  if (response.status === 429) await pause(Number(response.headers.get("retry-after")));
  return { status: response.status, body: await response.json() };
}

/** Creates a payment, and retries until the response is conclusive. The idempotency key makes this safe. */
export async function payOnce(body, idempotencyKey, tries = 5) {
  for (let attempt = 0; attempt < tries; attempt++) {
    if (attempt) await pause(2 ** attempt);
    // Without a response the payment may have been charged; the same idempotency key makes the retry safe.
    const response = await call("POST", "/v1/payments", body, idempotencyKey).catch(() => undefined);
    if (response && ![408, 429].includes(response.status) && response.status < 500) return response;
  }
  throw new Error(`no conclusive response for ${idempotencyKey}; do not treat the payment as failed`);
}
