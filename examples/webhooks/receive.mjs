// Receives events. The public library standardwebhooks verifies each delivery first.
//
//     npm install
//     WEBHOOK_SECRET=whsec_… PORT=8000 node receive.mjs

import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

const server = createServer(async (request, response) => {
  let event;
  try {
    // Verify the received bytes: reformatted JSON would not match the signature.
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    event = webhook.verify(Buffer.concat(chunks).toString(), request.headers);
  } catch {
    response.writeHead(400).end();
    return;
  }
  // Store the event by its id, because it may be delivered more than once. Do anything slow after the response, which is due
  // within 15 seconds.
  console.log(event.type, event.id);
  response.writeHead(204).end();
});

server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/`);
});
