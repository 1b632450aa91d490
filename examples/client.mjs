// Asks the API, with what Node has.
const { url, key } = process.env;
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** The HTTP status and the answer, whatever they are. */
export async function call(method, path, body, idempotencyKey) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  if (idempotencyKey) headers["idempotency-key"] = idempotencyKey;
  // Why 40 s: docs/api.md, Time limits of a client.
  const signal = AbortSignal.timeout(40_000);
  const response = await fetch(url + path, { method, headers, signal, body: body && JSON.stringify(body) });
  if (response.status === 429) await pause(Number(response.headers.get("retry-after")));
  return { status: response.status, answer: await response.json() };
}

/** A payment under a name of yours, repeated until there is an answer that counts. However often: it is one payment. */
export async function payOnce(body, name, tries = 5) {
  for (let attempt = 0; attempt < tries; attempt++) {
    if (attempt) await pause(2 ** attempt);
    // No answer: it may have been charged, and the same name asks again.
    const said = await call("POST", "/v1/payments", body, name).catch(() => undefined);
    if (said && ![408, 429].includes(said.status) && said.status < 500) return said;
  }
  throw new Error(`no answer for ${name}; do not take it as failed`);
}
