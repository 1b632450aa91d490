// A stand-in for Stripe's script: its card field is a frame of the double, which posts the card to the double.
"use strict";

const Stripe = (key) => {
  const origin = new URL(Stripe.base).origin;
  let frame;
  const field = {
    mount: (place) => {
      frame = document.createElement("iframe");
      frame.src = `${origin}/v3/field`;
      frame.title = "Secure card payment input frame";
      place.append(frame);
    },
    on: () => {},
    focus: () => frame.focus(),
  };
  return {
    elements: () => ({ create: () => field }),
    createPaymentMethod: () =>
      new Promise((resolve) => {
        addEventListener("message", function answered(event) {
          if (event.source !== frame.contentWindow) return;
          removeEventListener("message", answered);
          resolve(event.data);
        });
        frame.contentWindow.postMessage({ key }, origin);
      }),
  };
};
Stripe.base = document.currentScript.src;
