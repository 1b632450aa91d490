// Runs the contract's scripts as a page would, against a running gateway, and prints what their callbacks were told as JSON.
// Of a browser they need a script element, fields by id, and fetch.
const [base, appKey] = process.argv.slice(2);

async function load(path) {
  const source = await (await fetch(`${base}/services/${path}`)).text();
  globalThis.document.currentScript = { src: `${base}/services/${path}` };
  new Function(source)();
}

const fields = { card: { value: "4242 4242 4242 4242" }, bad: { value: "4242424242424241" } };
globalThis.window = globalThis;
// As a browser without anybody before it: dialogs are dismissed.
globalThis.confirm = () => false;
globalThis.document = { getElementById: (id) => fields[id] ?? null };

await load("proxynization_api.js");
const proxied = (first) =>
  new Promise((resolve) => {
    globalThis.done = (...told) => resolve(told);
    if (GatewayProxynizationAPI.process(first, "done") !== false) throw new Error("the form would be submitted");
  });
const told = {
  field: await proxied("#card"),
  number: await proxied("5555555555554444"),
  wrong: await proxied("#bad"),
  missing: await proxied("#none"),
};

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
await load("walletPay.js");
told.production = await pay(null, true);
console.log(JSON.stringify(told));
