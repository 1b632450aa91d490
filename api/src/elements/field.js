// The card field within a merchant's page. It speaks with that page alone:
//   field → page: {type: "ready"}, {type: "upstreamToken", upstreamToken}, {type: "error", message}
//   page → field: {type: "submit"}
(() => {
  const form = document.getElementById("card");
  const origin = form.dataset.origin;
  const card = cardOf(form);
  let busy = false;

  const tell = (message) => parent.postMessage(message, origin);

  async function submit() {
    if (busy) return;
    busy = true;
    card.clear();
    try {
      tell({ type: "upstreamToken", upstreamToken: await card.token() });
    } catch (fault) {
      tell({ type: "error", message: card.show(fault) });
    } finally {
      busy = false;
    }
  }

  // Enter in an input is for the page's own button.
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("message", (event) => {
    if (event.source === parent && event.origin === origin && event.data && event.data.type === "submit") submit();
  });
  tell({ type: "ready" });
})();
