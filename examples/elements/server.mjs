// A merchant's server: it serves the page, and takes the payment with the secret key, which never leaves it.
//
//     API_URL=http://127.0.0.1:8080 PUBLISHABLE_KEY=svc_pk_test_… SECRET_KEY=svc_sk_test_… PORT=3000 node server.mjs

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const { API_URL, PUBLISHABLE_KEY, SECRET_KEY, PORT = "3000" } = process.env;
const PRICE = { amount: 2700, currency: "USD" };
const file = (name) => readFile(new URL(name, import.meta.url), "utf8");
const [checkout, outcome] = await Promise.all([file("index.html"), file("return.html")]);

// A real shop keeps its orders in its database, and has written down what it sends before it sends it.
// state: "open" can be paid, "waiting" for an outcome, "action" is the bank's question, "paid".
const orders = new Map();
const MESSAGES = {
  open: "",
  waiting: "The payment is being processed. Please do not order again; this page shows the outcome.",
  action: "Your bank asks you to confirm the payment.",
  paid: "Thank you. It is paid.",
};

function newOrder() {
  const order = { id: randomUUID(), attempt: 1, state: "open", message: "" };
  orders.set(order.id, order);
  return order;
}

// A live account signs these requests: docs/signing.md. Why 40 s: docs/api.md, Time limits of a client.
async function call(method, path, body, idempotencyKey) {
  const headers = { authorization: `Bearer ${SECRET_KEY}`, "content-type": "application/json" };
  if (idempotencyKey) headers["idempotency-key"] = idempotencyKey;
  const signal = AbortSignal.timeout(40_000);
  const response = await fetch(API_URL + path, { method, headers, signal, body: body && JSON.stringify(body) });
  const answer = await response.json();
  // These say nothing about the payment: it may have been made, and only the same request again tells.
  if ([408, 429].includes(response.status) || response.status >= 500) throw new Error(`${response.status} ${path}`);
  return { ok: response.ok, answer };
}

function becomes(order, state, message = MESSAGES[state]) {
  Object.assign(order, { state, message });
}

// The attempt is over and has taken nothing. The next one, perhaps with another card, is another payment with another key.
function mayTryAgain(order, message) {
  Object.assign(order, { attempt: order.attempt + 1, sent: undefined, payment: undefined });
  becomes(order, "open", message);
}

// Asks how the payment of an order stands. Until its id is known, the same body is sent under the same Idempotency-Key: the
// first answer is repeated, whether or not it had reached us, and nothing is charged twice.
async function look(order) {
  const { sent, attempt } = order;
  if (!sent || order.state === "paid") return;
  const { ok, answer: payment } = order.payment
    ? await call("GET", `/v1/payments/${order.payment}`)
    : await call("POST", "/v1/payments", sent, `order-${order.id}-${attempt}`);
  if (order.sent !== sent) return; // Another request for this order was faster.
  if (!ok) {
    // Refused, so nothing was charged, and the key is not used up: such as a token that has expired meanwhile.
    console.error(payment);
    order.sent = undefined;
    return becomes(order, "open", "The card could not be used. Nothing was charged; please try again.");
  }
  order.payment = payment.id;
  const isPartial = payment.status === "settled" && payment.amount < PRICE.amount;
  if (isPartial || ["partially_authorized", "cancelled", "refunded"].includes(payment.status)) return giveBack(order, payment);
  switch (payment.status) {
    case "pending_settlement":
    case "settled":
      return becomes(order, "paid");
    case "requires_action":
      order.continueAt = payment.nextAction.url;
      return becomes(order, "action");
    case "declined":
      return mayTryAgain(order, "The card was declined. Nothing was charged; please try another one.");
    case "failed":
      return mayTryAgain(order, "The payment could not be made. Nothing was charged; please try again.");
    default:
      return becomes(order, "waiting");
  }
}

// Half a tin is no use: what was approved goes back, by a void before it settles and by a refund afterwards. Until it has, the
// order waits.
async function giveBack(order, payment) {
  const { sent } = order;
  becomes(order, "waiting");
  let { status } = payment;
  if (status === "partially_authorized" || status === "settled") {
    const how = status === "settled" ? "refund" : "void";
    const { answer } = await call("POST", `/v1/payments/${payment.id}/${how}`);
    if (order.sent !== sent) return;
    status = answer.status;
  }
  if (status !== "cancelled" && status !== "refunded") return;
  mayTryAgain(order, "The card has not enough on it. Nothing was charged; please try another one.");
}

// An answer that did not come leaves the order as it is known: it is asked for again by the next request.
async function lookOrWait(order) {
  await look(order).catch((error) => {
    console.error(error);
    if (order.state === "open") becomes(order, "waiting");
  });
}

async function pay(order, request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { paymentToken } = JSON.parse(Buffer.concat(chunks).toString());
  // What it costs is decided here, and not in the browser. What was sent before is asked for again before a new token counts.
  order.sent ??= { ...PRICE, paymentToken, returnUrl: `http://localhost:${server.address().port}/return` };
  await lookOrWait(order);
  if (order.state === "action") return { message: order.message, continueAt: order.continueAt };
  return { message: order.message, continueAt: order.state === "open" ? undefined : "/return" };
}

function fill(page, values) {
  return Object.entries(values).reduce((html, [name, value]) => html.replaceAll(`{{${name}}}`, value), page);
}

const NEXT = {
  open: ["/", "Try again"],
  waiting: ["/return", "Look again"],
  paid: ["/new", "Order again"],
};

async function answer(request, response) {
  const url = new URL(request.url, "http://localhost");
  const [, id] = /(?:^|; )order=([^;]+)/.exec(request.headers.cookie ?? "") ?? [];
  let order = orders.get(id) ?? newOrder();
  if (url.pathname === "/new" && order.state === "paid") order = newOrder();
  const headers = { "set-cookie": `order=${order.id}; HttpOnly; SameSite=Lax; Path=/`, "cache-control": "no-store" };
  const html = { ...headers, "content-type": "text/html; charset=utf-8" };
  const goTo = (location) => response.writeHead(303, { ...headers, location }).end();
  if (request.method === "POST" && url.pathname === "/pay") {
    const answer = JSON.stringify(await pay(order, request));
    return response.writeHead(200, { ...headers, "content-type": "application/json" }).end(answer);
  }
  if (!["/", "/return", "/new"].includes(url.pathname)) return response.writeHead(404).end();
  await lookOrWait(order);
  if (url.pathname === "/return") {
    const [next, label] = order.state === "action" ? [order.continueAt, "Continue with your bank"] : NEXT[order.state];
    if (order.state === "waiting") html.refresh = "3";
    const message = order.message || "Nothing has been paid yet.";
    return response.writeHead(200, html).end(fill(outcome, { MESSAGE: message, NEXT: next, LABEL: label }));
  }
  if (order.state !== "open") return goTo("/return");
  if (url.pathname === "/new") return goTo("/");
  response.writeHead(200, html).end(fill(checkout, { API_URL, PUBLISHABLE_KEY, MESSAGE: order.message }));
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    if (!response.headersSent) response.writeHead(500, { "content-type": "application/json" });
    response.end(JSON.stringify({ message: "Something went wrong on our side. Please press Pay again." }));
  });
});

server.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`listening on http://localhost:${server.address().port}/`);
});
