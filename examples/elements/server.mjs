// A merchant's server: it serves the page, and takes the payment with the secret key, which never leaves it.
//
//     API_URL=http://127.0.0.1:8080 PUBLISHABLE_KEY=svc_pk_test_… SECRET_KEY=svc_sk_test_… PORT=3000 node server.mjs

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const { API_URL, PUBLISHABLE_KEY, SECRET_KEY, PORT = "3000" } = process.env;
const page = (await readFile(new URL("index.html", import.meta.url), "utf8"))
  .replaceAll("{{API_URL}}", API_URL)
  .replaceAll("{{PUBLISHABLE_KEY}}", PUBLISHABLE_KEY);

// A live account signs these requests: docs/signing.md.
async function post(path, body) {
  const response = await fetch(API_URL + path, {
    method: "POST",
    headers: { authorization: `Bearer ${SECRET_KEY}`, "content-type": "application/json" },
    body: body && JSON.stringify(body),
  });
  return response.json();
}

async function pay(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { paymentToken } = JSON.parse(Buffer.concat(chunks).toString());
  // What it costs is decided here, and not in the browser.
  const returnUrl = `http://localhost:${PORT}/`;
  const payment = await post("/v1/payments", { amount: 2700, currency: "USD", paymentToken, returnUrl });
  switch (payment.status) {
    case "pending_settlement":
    case "settled":
      return { message: "Thank you. It is paid." };
    case "requires_action":
      return { continueAt: payment.nextAction.url };
    case "processing":
      return { message: "The payment is being processed. We will tell you what has come of it." };
    case "declined":
      return { message: "The card was declined. Nothing was charged; please try another one." };
    case "partially_authorized":
      // Half a tin is no use: what was approved goes back.
      await post(`/v1/payments/${payment.id}/void`);
      return { message: "The card has not enough on it. Nothing was charged; please try another one." };
    default:
      console.error(payment);
      return { message: "The payment could not be made. Please try again." };
  }
}

const server = createServer(async (request, response) => {
  if (request.method === "POST" && request.url === "/pay") {
    const answer = await pay(request).catch((error) => {
      console.error(error);
      return { message: "Something went wrong on our side." };
    });
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  } else {
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(page);
  }
});

server.listen(Number(PORT), "127.0.0.1", () => {
  console.log(`listening on http://localhost:${server.address().port}/`);
});
