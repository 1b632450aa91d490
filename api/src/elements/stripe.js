// Shared by payment pages and card fields of accounts at Stripe: Stripe's own card field, framed from Stripe. It has the functions of
// card.js; the card never reaches this page.
"use strict";

const createCardForm = (form) => {
  const error = form.querySelector("#card-error");
  const frame = form.querySelector("#card-element");
  const { processorUnreachable: UNREACHABLE } = JSON.parse(form.dataset.texts);

  // Blocked, or not reachable.
  const stripe = typeof Stripe === "function" ? Stripe(form.dataset.key) : null;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const field = stripe && stripe.elements({ locale: document.documentElement.lang }).create("card", {
    style: {
      base: { fontSize: "16px", color: color("text"), "::placeholder": { color: color("placeholder") } },
      invalid: { color: color("bad"), iconColor: color("bad") },
    },
  });

  function show(failure) {
    const message = (failure && failure.message) || UNREACHABLE;
    error.textContent = message;
    if (field) field.focus();
    return message;
  }

  const clear = () => {
    error.textContent = "";
  };

  if (field) {
    field.mount(frame);
    field.on("change", (event) => {
      error.textContent = event.error ? event.error.message : "";
    });
  } else show(null);

  return {
    token: async () => {
      if (!field) throw new Error(UNREACHABLE);
      const { paymentMethod, error: invalid } = await stripe.createPaymentMethod({ type: "card", card: field });
      if (invalid) throw invalid;
      return paymentMethod.id;
    },
    show,
    clear,
    // Each attempt needs a new token, for which the field keeps the card.
    clearCode: () => {},
  };
};
