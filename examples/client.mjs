// An API client without libraries.
const { url, key } = process.env;
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** Returns the HTTP status and the JSON body of any response. */
export async function call(method, path, body, idempotencyKey) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  if (idempotencyKey) headers["idempotency-key"] = idempotencyKey;
  // For the timeout see docs/api.md, Time limits of a client.
  const signal = AbortSignal.timeout(40_000);
  const response = await fetch(url + path, { method, headers, signal, body: body && JSON.stringify(body) });
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
