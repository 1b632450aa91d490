// The card field in a merchant's page. It exchanges messages only with that page:
//   field → page: {type: "ready"}, {type: "height", height}, {type: "upstreamToken", upstreamToken}, {type: "error", message}
//   page → field: {type: "submit"}, {type: "configure", variables}
(() => {
  const form = document.getElementById("card");
  const origin = form.dataset.origin;
  const card = createCardForm(form);
  // Custom properties of the style that the page may set.
  const VARIABLES = ["text", "muted", "placeholder", "background", "input", "input-border", "accent", "bad", "radius"];
  const heights = new ResizeObserver(() => {
    send({ type: "height", height: Math.ceil(document.body.getBoundingClientRect().height) });
  });
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

  function configure(variables) {
    for (const name of VARIABLES) {
      const value = variables && variables[name];
      if (typeof value === "string") document.documentElement.style.setProperty(`--${name}`, value);
    }
    // Error messages make the field higher.
    heights.observe(document.body);
  }

  // Enter must not submit the form: the merchant's page decides when to submit.
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("message", (event) => {
    if (event.source !== parent || event.origin !== origin || !event.data) return;
    if (event.data.type === "submit") submit();
    if (event.data.type === "configure") configure(event.data.variables);
  });
  send({ type: "ready" });
})();
