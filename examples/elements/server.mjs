// A merchant's server: it serves the page, and creates the payment with the secret key, which never leaves the server.
//
//     API_URL=http://127.0.0.1:8080 PUBLISHABLE_KEY=svc_pk_test_… SECRET_KEY=svc_sk_test_… PORT=3000 node server.mjs

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const { API_URL, PUBLISHABLE_KEY, SECRET_KEY, PORT = "3000" } = process.env;
const PRICE = { amount: 2700, currency: "USD" };
const file = (name) => readFile(new URL(name, import.meta.url), "utf8");
const [checkoutPage, returnPage] = await Promise.all([file("index.html"), file("return.html")]);

// A real shop keeps its orders in a database, and stores each request before it sends it.
// state: "open" can be paid, "waiting" for an outcome, "action" needs the customer's confirmation at the bank, "paid".
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

// A live account signs these requests: docs/api.md, Signing. For the timeout see docs/api.md, Time limits of a client.
async function call(method, path, body, idempotencyKey) {
  const headers = { authorization: `Bearer ${SECRET_KEY}`, "content-type": "application/json" };
  if (idempotencyKey) headers["idempotency-key"] = idempotencyKey;
  const signal = AbortSignal.timeout(40_000);
  const response = await fetch(API_URL + path, { method, headers, signal, body: body && JSON.stringify(body) });
  const data = await response.json();
  // These statuses do not tell whether the payment was made; repeat the same request to find out.
  if ([408, 429].includes(response.status) || response.status >= 500) throw new Error(`${response.status} ${path}`);
  return { ok: response.ok, data };
}

function setState(order, state, message = MESSAGES[state]) {
  Object.assign(order, { state, message });
}

// The attempt has ended without a charge. The next one, perhaps with another card, is a new payment with a new key.
function allowRetry(order, message) {
  Object.assign(order, { attempt: order.attempt + 1, sent: undefined, payment: undefined });
  setState(order, "open", message);
}

// Updates an order from its payment. Until the payment's id is known, it sends the same body with the same Idempotency-Key: the
// API repeats the first response, even if that was lost, and never charges twice.
async function refresh(order) {
  const { sent, attempt } = order;
  if (!sent || order.state === "paid") return;
  const { ok, data: payment } = order.payment
    ? await call("GET", `/v1/payments/${order.payment}`)
    : await call("POST", "/v1/payments", sent, `order-${order.id}-${attempt}`);
  if (order.sent !== sent) return; // A concurrent request for this order was faster.
  if (!ok) {
    // The request was rejected, for example because the token has expired. Nothing was charged, and the key can be used again.
    console.error(payment);
    order.sent = undefined;
    return setState(order, "open", "The card could not be used. Nothing was charged; please try again.");
  }
  order.payment = payment.id;
  const isPartial = payment.status === "settled" && payment.amount < PRICE.amount;
  const isIncomplete = ["partially_authorized", "cancelled", "refunded"].includes(payment.status);
  if (isPartial || isIncomplete) return cancelPartial(order, payment);
  switch (payment.status) {
    case "pending_settlement":
    case "settled":
      return setState(order, "paid");
    case "requires_action":
      order.continueAt = payment.nextAction.url;
      return setState(order, "action");
    case "declined":
      return allowRetry(order, "The card was declined. Nothing was charged; please try another one.");
    case "failed":
      return allowRetry(order, "The payment could not be made. Nothing was charged; please try again.");
    default:
      return setState(order, "waiting");
  }
}

// The order cannot be paid in part: void the payment before it settles, or refund it afterwards. Until then the order waits.
async function cancelPartial(order, payment) {
  const { sent } = order;
  setState(order, "waiting");
  let { status } = payment;
  if (status === "partially_authorized" || status === "settled") {
    const action = status === "settled" ? "refund" : "void";
    const { data } = await call("POST", `/v1/payments/${payment.id}/${action}`);
    if (order.sent !== sent) return;
    status = data.status;
  }
  if (status !== "cancelled" && status !== "refunded") return;
  allowRetry(order, "There is not enough money on the card. Nothing was charged; please try another one.");
}

// Without a response the outcome is unknown; the next request refreshes the order again.
async function refreshOrWait(order) {
  await refresh(order).catch((error) => {
    console.error(error);
    if (order.state === "open") setState(order, "waiting");
  });
}

async function pay(order, request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { paymentToken } = JSON.parse(Buffer.concat(chunks).toString());
  // The server sets the price, not the browser. A request that was sent before is repeated; only then is a new token used.
  order.sent ??= { ...PRICE, paymentToken, returnUrl: `http://localhost:${server.address().port}/return` };
  await refreshOrWait(order);
  if (order.state === "action") return { message: order.message, continueAt: order.continueAt };
  return { message: order.message, continueAt: order.state === "open" ? undefined : "/return" };
}

function fill(page, values) {
  return Object.entries(values).reduce((html, [name, value]) => html.replaceAll(`{{${name}}}`, value), page);
}

const NEXT = {
  open: ["/", "Try again"],
  waiting: ["/return", "Refresh"],
  paid: ["/new", "Order again"],
};

async function handle(request, response) {
  const url = new URL(request.url, "http://localhost");
  const [, id] = /(?:^|; )order=([^;]+)/.exec(request.headers.cookie ?? "") ?? [];
  let order = orders.get(id) ?? newOrder();
  if (url.pathname === "/new" && order.state === "paid") order = newOrder();
  const headers = { "set-cookie": `order=${order.id}; HttpOnly; SameSite=Lax; Path=/`, "cache-control": "no-store" };
  const html = { ...headers, "content-type": "text/html; charset=utf-8" };
  const redirect = (location) => response.writeHead(303, { ...headers, location }).end();
  if (request.method === "POST" && url.pathname === "/pay") {
    const result = JSON.stringify(await pay(order, request));
    return response.writeHead(200, { ...headers, "content-type": "application/json" }).end(result);
  }
  if (!["/", "/return", "/new"].includes(url.pathname)) return response.writeHead(404).end();
  await refreshOrWait(order);
  if (url.pathname === "/return") {
    const [next, label] = order.state === "action" ? [order.continueAt, "Continue with your bank"] : NEXT[order.state];
    if (order.state === "waiting") html.refresh = "3";
    const message = order.message || "Nothing has been paid yet.";
    return response.writeHead(200, html).end(fill(returnPage, { MESSAGE: message, NEXT: next, LABEL: label }));
  }
  if (order.state !== "open") return redirect("/return");
  if (url.pathname === "/new") return redirect("/");
  response.writeHead(200, html).end(fill(checkoutPage, { API_URL, PUBLISHABLE_KEY, MESSAGE: order.message }));
}

const server = createServer((request, response) => {
  handle(request, response).catch((error) => {
    console.error(error);
    if (!response.headersSent) response.writeHead(500, { "content-type": "application/json" });
    response.end(JSON.stringify({ message: "Something went wrong on our side. Please press Pay again." }));
  });
});

server.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`listening on http://localhost:${server.address().port}/`);
});
