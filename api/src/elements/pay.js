// A payment page: the card becomes a token, and the form sends that.
(() => {
  const form = document.getElementById("pay");
  const button = form.querySelector("button[type=submit]");
  const token = form.querySelector("input[name=token]");
  const amount = form.querySelector("input[name=amount]");
  const tip = form.querySelector("input[name=tip]");
  const outcome = document.getElementById("outcome");
  const card = cardOf(form);
  // Longer than the service lets a request wait.
  const GIVE_UP_MS = 60000;
  let busy = false;

  // Both sums come from the service, spelt out; which of them is shown depends on the box.
  function showSum() {
    const which = tip && tip.checked ? "with" : "without";
    for (const place of document.querySelectorAll("[data-with]")) {
      if (!(place === button && busy)) place.textContent = place.dataset[which];
    }
    for (const row of document.querySelectorAll("[data-tip]")) row.hidden = which === "without";
    amount.value = amount.dataset[which === "with" ? "sum" : "sumWithout"];
  }

  function setBusy(now) {
    busy = now;
    form.setAttribute("aria-busy", String(now));
    button.setAttribute("aria-disabled", String(now));
    if (now) button.textContent = "Paying…";
    else showSum();
  }

  // What was entered stays, but for the security code.
  function say(lines) {
    for (const old of document.querySelectorAll("main > .notice")) old.remove();
    outcome.replaceChildren(
      ...lines.filter(Boolean).map((line) => Object.assign(document.createElement("p"), { textContent: line }))
    );
    outcome.hidden = false;
    card.forgetCode();
    setBusy(false);
    outcome.focus();
  }

  async function ask() {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), GIVE_UP_MS);
    try {
      const answer = await fetch(form.action, {
        method: "POST",
        headers: { accept: "application/json" },
        body: new URLSearchParams(new FormData(form)),
        signal: stop.signal,
      });
      const isOurs = (answer.headers.get("content-type") || "").startsWith("application/json");
      return isOurs ? await answer.json() : { submit: true };
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
    } catch (fault) {
      setBusy(false);
      card.show(fault);
      return;
    }
    let answer;
    try {
      answer = await ask();
    } catch {
      say(["No answer came. Please press the button again: if it was paid meanwhile, the page says so and nothing is charged twice."]);
      return;
    }
    if (answer.lines) say(answer.lines);
    // The service has a page to show in place of this one.
    else if (answer.submit) form.submit();
    else {
      // Whoever comes back from the bank by the Back button finds the payment that waits, and the way there again.
      if (answer.back) history.replaceState(null, "", answer.back);
      location.assign(answer.location);
    }
  }

  form.addEventListener("submit", pay);
  if (tip) tip.addEventListener("change", showSum);
  // Also when the browser comes back to the page as it left it.
  addEventListener("pageshow", (event) => {
    // Kept by the browser with the card still in it: neither that nor how the page stood then is shown again.
    if (event.persisted) {
      form.reset();
      location.reload();
      return;
    }
    token.value = "";
    setBusy(false);
  });
})();
