// A payment page: the card becomes a token, and the form sends that.
(() => {
  const form = document.getElementById("pay");
  const button = form.querySelector("button[type=submit]");
  const token = form.querySelector("input[name=token]");
  const amount = form.querySelector("input[name=amount]");
  const noTip = form.querySelector("input[name=no_tip]");
  const card = cardOf(form);
  // Longer than the service lets anyone wait.
  const GIVE_UP_MS = 60000;
  let busy = false;

  // Both sums come from the service, spelt out; which of them is shown depends on the box.
  function showSum() {
    const which = noTip && noTip.checked ? "without" : "with";
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

  async function pay(event) {
    event.preventDefault();
    if (busy) return;
    card.clear();
    setBusy(true);
    try {
      token.value = await card.token();
    } catch (fault) {
      setBusy(false);
      card.show(fault);
      return;
    }
    form.submit();
    setTimeout(() => setBusy(false), GIVE_UP_MS);
  }

  form.addEventListener("submit", pay);
  if (noTip) noTip.addEventListener("change", showSum);
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
