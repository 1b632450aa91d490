// Runs the contract's scripts and the capture field as pages would, against a running gateway, and prints what they were told as
// JSON. Of a browser they need a script element, fields by id, messages, and fetch.
import { createServer } from "node:http";

const [gateway, appKey] = process.argv.slice(2);

// The gateway is reached under a path, as behind a server that has other things too.
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
  const answer = await fetch(gateway + request.url.slice("/cards".length), { method, body, headers: type });
  response.writeHead(answer.status).end(await answer.text());
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${server.address().port}/cards`;

const fields = { card: { value: "4242 4242 4242 4242" }, bad: { value: "4242424242424241" } };
globalThis.window = globalThis;
// As a browser without anybody before it: dialogs are dismissed.
globalThis.confirm = () => false;
let scripts = [];
globalThis.document = {
  getElementById: (id) => fields[id] ?? null,
  querySelector: (selector) => {
    const part = /^script\[src\*="(.*)"\]$/.exec(selector)[1];
    return scripts.find((script) => script.src.includes(part)) ?? null;
  },
};

async function load(path, isCurrent = true) {
  const script = { src: `${base}/services/${path}?v=1` };
  const source = await (await fetch(script.src)).text();
  document.currentScript = isCurrent ? script : null;
  scripts = [{ src: "https://other.example/a.js" }, script];
  new Function(source)();
}

const told = {};
const proxied = (first) =>
  new Promise((resolve) => {
    globalThis.done = (...told) => resolve(told);
    if (GatewayProxynizationAPI.process(first, "done") !== false) throw new Error("the form would be submitted");
  });
await load("proxynization_api.js");
told.field = await proxied("#card");
told.number = await proxied("5555555555554444");
told.wrong = await proxied("#bad");
told.missing = await proxied("#none");
// Without a callback nothing is sent, and the form is held all the same.
const before = requests;
const complaints = [];
console.error = (text) => complaints.push(text);
told.nobody = [GatewayProxynizationAPI.process("#card", "nobody"), requests - before, complaints.length];
broken = true;
told.broken = await proxied("#card");
broken = false;
await load("proxynization_api.js", false);
told.module = await proxied("#card");

const pay = (card, agrees) =>
  new Promise((resolve) => {
    const wallet = globalThis.gatewayWalletPay;
    if (agrees !== undefined) wallet.confirm = () => agrees;
    if (card) wallet.testCard = card;
    wallet.paymentResponse = (...answer) => resolve(answer);
    wallet.paymentRequest(appKey, "Shop", "25.00", "USD");
  });
await load("walletPaySandbox.js");
told.wallet = await pay(null);
told.agreed = await pay(null, true);
told.cancelled = await pay(null, false);
told.stranger = await pay("4000056655665556", true);
broken = true;
told.silent = await pay(null, true);
broken = false;
await load("walletPaySandbox.js", false);
told.bundled = await pay(null);
await load("walletPay.js");
told.production = await pay(null, true);

// The capture field: its inputs, and the page that frames it.
const input = (id, value) => ({
  id,
  value,
  wrong: false,
  focused: false,
  setAttribute(name) { this.wrong ||= name === "aria-invalid"; },
  removeAttribute(name) { this.wrong &&= name !== "aria-invalid"; },
  focus() { this.focused = true; },
});
const values = { creditcard_number: "4242424242424242", expire_month: "12", expire_year: "2034", cvv: "917" };
const inputs = Object.entries({ ...values, name: "Jane Doe", zip_code: "10001", country_code: "US" });
const form = { inputs: inputs.map(([id, value]) => input(id, value)), addEventListener() {} };
form.querySelectorAll = () => form.inputs;
const fault = { textContent: "" };
document.body = { dataset: { origin: "https://shop.example", appKey } };
document.getElementById = (id) => ({ card: form, fault })[id];
let hear;
let listen;
const page = { postMessage: (message, origin) => hear?.({ ...message, origin }) };
globalThis.parent = page;
globalThis.addEventListener = (_, listener) => { listen = listener; };
const direct = globalThis.fetch;
globalThis.fetch = (address, init) => direct(new URL(address, `${base}/services/field`), init);
await load("field.js");

async function submit(id, value) {
  const changed = form.inputs.find((input) => input.id === id);
  const former = changed?.value;
  if (changed) changed.value = value;
  const heard = new Promise((resolve) => { hear = resolve; });
  listen({ origin: "https://shop.example", source: page, data: { type: "submit" } });
  const message = await heard;
  // So that it is ready for the next.
  await new Promise(setImmediate);
  if (changed) changed.value = former;
  const wrong = form.inputs.filter((input) => input.wrong).map((input) => input.id);
  return { message, wrong, focused: changed?.focused ?? false, shown: fault.textContent };
}
told.frame = {
  creditcard_number: await submit("creditcard_number", "4242424242424241"),
  expire_month: await submit("expire_month", "13"),
  cvv: await submit("cvv", ""),
  country_code: await submit("country_code", "XX"),
};
broken = true;
told.frame.broken = await submit();
broken = false;
told.frame.right = await submit();
console.log(JSON.stringify(told));
server.close();
server.closeAllConnections();
