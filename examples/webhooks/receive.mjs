// Hears of events: each delivery is verified by the public library standardwebhooks before it is believed.
//
//     npm install
//     WEBHOOK_SECRET=whsec_… PORT=8000 node receive.mjs

import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

const server = createServer(async (request, response) => {
  let event;
  try {
    // The bytes as they came: another rendering of the same JSON has another signature.
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    event = webhook.verify(Buffer.concat(chunks).toString(), request.headers);
  } catch {
    response.writeHead(400).end();
    return;
  }
  // Here goes what must be done at once: note the event, under its id, for it may come more than once. What takes time is
  // done after the answer, which has to come within 15 seconds.
  console.log(event.type, event.id);
  response.writeHead(204).end();
});

server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/`);
});
