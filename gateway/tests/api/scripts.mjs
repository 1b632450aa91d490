// Runs the contract's scripts and the card field against a running gateway, as pages do, and prints their results as JSON. Of a
// browser they need only a script element, elements by id, messages, and fetch.
import { createServer } from "node:http";

const [gateway, appKey] = process.argv.slice(2);

// A reverse proxy that serves the gateway under a path.
let requests = 0;
let broken = false;
const server = createServer(async (request, response) => {
  requests += 1;
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  if (broken || !request.url.startsWith("/cards/")) return response.writeHead(broken ? 200 : 404).end("{}");
  const { method, headers } = request;
  const body = method === "POST" ? Buffer.concat(chunks) : undefined;
  const type = { "content-type": headers["content-type"] ?? "" };
  const upstream = await fetch(gateway + request.url.slice("/cards".length), { method, body, headers: type });
  response.writeHead(upstream.status).end(await upstream.text());
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${server.address().port}/cards`;

const fields = { card: { value: "4242 4242 4242 4242" }, bad: { value: "4242424242424241" } };
globalThis.window = globalThis;
// As in an unattended browser, dialogs are dismissed.
globalThis.confirm = () => false;
let scripts = [];
let currentScript = null;
globalThis.Document = class {
  get currentScript() { return currentScript; }
  getElementById(id) { return fields[id] ?? null; }
  querySelector(selector) {
    const part = /^script\[src\*="(.*)"\]$/.exec(selector)[1];
    return scripts.find((script) => script.src.includes(part)) ?? null;
  }
};
globalThis.document = new Document();

async function load(path, isCurrent = true) {
  const script = { src: `${base}/services/${path}?v=1` };
  const source = await (await fetch(script.src)).text();
  currentScript = isCurrent ? script : null;
  scripts = [{ src: "https://other.example/a.js" }, script];
  new Function(source)();
}

const results = {};
const proxied = (first) =>
  new Promise((resolve) => {
    globalThis.done = (...result) => resolve(result);
    if (GatewayProxynizationAPI.process(first, "done") !== false) throw new Error("the form would be submitted");
  });
await load("proxynization_api.js");
results.field = await proxied("#card");
results.number = await proxied("5555555555554444");
results.invalid = await proxied("#bad");
results.missing = await proxied("#none");
// Without a callback nothing is sent, and the form is not submitted either.
const before = requests;
const errors = [];
console.error = (text) => errors.push(text);
results.noCallback = [GatewayProxynizationAPI.process("#card", "missing"), requests - before, errors.length];
broken = true;
results.broken = await proxied("#card");
broken = false;
await load("proxynization_api.js", false);
results.module = await proxied("#card");

const pay = (card, confirms) =>
  new Promise((resolve) => {
    const wallet = globalThis.gatewayWalletPay;
    if (confirms !== undefined) wallet.confirm = () => confirms;
    if (card) wallet.testCard = card;
    wallet.paymentResponse = (...result) => resolve(result);
    wallet.paymentRequest(appKey, "Shop", "25.00", "USD");
  });
await load("walletPaySandbox.js");
results.wallet = await pay(null);
results.confirmed = await pay(null, true);
results.cancelled = await pay(null, false);
results.otherCard = await pay("4000056655665556", true);
broken = true;
results.noResponse = await pay(null, true);
broken = false;
await load("walletPaySandbox.js", false);
results.bundled = await pay(null);
await load("walletPay.js");
results.production = await pay(null, true);

// The card field's inputs, and the page that frames it.
const input = (id, value) => ({
  id,
  value,
  invalid: false,
  focused: false,
  setAttribute(name) { this.invalid ||= name === "aria-invalid"; },
  removeAttribute(name) { this.invalid &&= name !== "aria-invalid"; },
  focus() { this.focused = true; },
});
const values = { creditcard_number: "4242424242424242", expire_month: "12", expire_year: "2034", cvv: "917" };
const inputs = Object.entries({ ...values, name: "Jane Doe", zip_code: "10001", country_code: "US" });
const form = { inputs: inputs.map(([id, value]) => input(id, value)), addEventListener() {} };
form.querySelectorAll = () => form.inputs;
const error = { textContent: "" };
document.body = { dataset: { origin: "https://shop.example", appKey } };
document.getElementById = (id) => ({ card: form, error })[id];
let receive;
let dispatch;
const page = { postMessage: (message, origin) => receive?.({ ...message, origin }) };
globalThis.parent = page;
globalThis.addEventListener = (_, listener) => { dispatch = listener; };
const direct = globalThis.fetch;
globalThis.fetch = (address, init) => direct(new URL(address, `${base}/services/field`), init);
await load("field.js");

async function submit(id, value) {
  const changed = form.inputs.find((input) => input.id === id);
  const original = changed?.value;
  if (changed) changed.value = value;
  const received = new Promise((resolve) => { receive = resolve; });
  dispatch({ origin: "https://shop.example", source: page, data: { type: "submit" } });
  const message = await received;
  // Lets the field finish, so that it accepts the next submission.
  await new Promise(setImmediate);
  if (changed) changed.value = original;
  const invalid = form.inputs.filter((input) => input.invalid).map((input) => input.id);
  return { message, invalid, focused: changed?.focused ?? false, displayed: error.textContent };
}
results.frame = {
  creditcard_number: await submit("creditcard_number", "4242424242424241"),
  expire_month: await submit("expire_month", "13"),
  cvv: await submit("cvv", ""),
  country_code: await submit("country_code", "XX"),
};
broken = true;
results.frame.broken = await submit();
broken = false;
results.frame.valid = await submit();
console.log(JSON.stringify(results));
server.close();
server.closeAllConnections();
