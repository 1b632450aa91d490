// The card field in a merchant's page. It exchanges messages only with that page:
//   field → page: {type: "ready"}, {type: "upstreamToken", upstreamToken}, {type: "error", message}
//   page → field: {type: "submit"}
(() => {
  const form = document.getElementById("card");
  const origin = form.dataset.origin;
  const card = createCardForm(form);
  let busy = false;

  const send = (message) => parent.postMessage(message, origin);

  async function submit() {
    if (busy) return;
    busy = true;
    card.clear();
    try {
      send({ type: "upstreamToken", upstreamToken: await card.token() });
    } catch (error) {
      send({ type: "error", message: card.show(error) });
    } finally {
      busy = false;
    }
  }

  // Enter must not submit the form: the merchant's page decides when to submit.
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("message", (event) => {
    if (event.source === parent && event.origin === origin && event.data && event.data.type === "submit") submit();
  });
  send({ type: "ready" });
})();
