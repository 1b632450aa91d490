// A payment page: exchanges the card for a token and submits that with the form.
(() => {
  const form = document.getElementById("pay");
  const button = form.querySelector("button[type=submit]");
  const token = form.querySelector("input[name=token]");
  const amount = form.querySelector("input[name=amount]");
  const tip = form.querySelector("input[name=tip]");
  const outcome = document.getElementById("outcome");
  const texts = JSON.parse(form.dataset.texts);
  const card = createCardForm(form);
  // Longer than the service takes to respond.
  const TIMEOUT_MS = 60000;
  let busy = false;

  // Shows the total with or without the tip. The service renders both texts.
  function showTotal() {
    const which = tip && tip.checked ? "with" : "without";
    for (const element of document.querySelectorAll("[data-with]")) {
      if (!(element === button && busy)) element.textContent = element.dataset[which];
    }
    for (const row of document.querySelectorAll("[data-tip]")) row.hidden = which === "without";
    amount.value = amount.dataset[which === "with" ? "sum" : "sumWithout"];
  }

  function setBusy(value) {
    busy = value;
    form.setAttribute("aria-busy", String(value));
    button.setAttribute("aria-disabled", String(value));
    if (value) button.textContent = texts.paying;
    else showTotal();
  }

  // Shows a message. The entered card stays, except for the security code.
  function showMessage(lines) {
    for (const notice of document.querySelectorAll("main > .notice")) notice.remove();
    outcome.replaceChildren(
      ...lines.filter(Boolean).map((line) => Object.assign(document.createElement("p"), { textContent: line }))
    );
    outcome.hidden = false;
    card.clearCode();
    setBusy(false);
    outcome.focus();
  }

  async function submit() {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), TIMEOUT_MS);
    try {
      const response = await fetch(form.action, {
        method: "POST",
        headers: { accept: "application/json" },
        body: new URLSearchParams(new FormData(form)),
        signal: stop.signal,
      });
      // Anything else, such as a proxy's error, does not say what became of the submission.
      const reply = await response.json();
      if (!reply.lines && !reply.submit && !reply.location) throw new Error("not a response of the page");
      return reply;
    } finally {
      clearTimeout(timer);
    }
  }

  async function pay(event) {
    event.preventDefault();
    if (busy) return;
    card.clear();
    outcome.hidden = true;
    setBusy(true);
    try {
      token.value = await card.token();
    } catch (error) {
      setBusy(false);
      card.show(error);
      return;
    }
    let reply;
    try {
      reply = await submit();
    } catch {
      // This submission may have succeeded, so a later one must not be answered with "Your card was not charged".
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name: "again", value: "1" }));
      showMessage([texts.noResponse]);
      return;
    }
    if (reply.lines) showMessage(reply.lines);
    // The service wants to show another page.
    else if (reply.submit) form.submit();
    else {
      // The Back button on the bank's page then leads to the pending payment and its link to the bank.
      if (reply.back) history.replaceState(null, "", reply.back);
      location.assign(reply.location);
    }
  }

  form.addEventListener("submit", pay);
  button.disabled = false;
  if (tip) tip.addEventListener("change", showTotal);
  addEventListener("pageshow", (event) => {
    // Restored from the back/forward cache, with the card still entered and an outdated state: load it afresh.
    if (event.persisted) {
      form.reset();
      location.reload();
      return;
    }
    token.value = "";
    setBusy(false);
  });
})();
