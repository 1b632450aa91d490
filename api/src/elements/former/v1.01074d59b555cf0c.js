// Cards in a merchant's page (docs/elements.md). The card is entered in a frame of this service and goes straight to the provider;
// the page gets a payment token.
//
//   const card = UnifiedPayments("svc_pk_…").mount("#card");
//   const { paymentToken } = await card.submit();
(() => {
  "use strict";
  const script = document.currentScript || document.querySelector('script[src*="/elements/v1."]');
  const base = new URL("..", script.src);
  // A session lives for 30 minutes; what is older than this is not relied on.
  const FRESH_MS = 25 * 60 * 1000;
  const READY_MS = 20 * 1000;
  const ANSWER_MS = 60 * 1000;
  const UNREACHABLE = "The payment service could not be reached. Please try again.";

  function checkKey(key) {
    if (typeof key === "string" && key.trim().startsWith("svc_sk_")) {
      throw new Error(
        "UnifiedPayments: this is a secret key. It must never be in a browser: revoke it, and use the publishable key (svc_pk_…)."
      );
    }
    if (typeof key !== "string" || !/^svc_pk_(test|live)_[A-Za-z0-9_-]+$/.test(key)) {
      throw new Error("UnifiedPayments: a publishable key (svc_pk_…) is needed.");
    }
  }

  // Its message is for the cardholder; `code` and `detail` are for the developer.
  function failure(message, answer) {
    const error = new Error(message);
    const said = (answer && answer.error) || {};
    if (said.code) error.code = said.code;
    if (said.message) error.detail = said.message;
    return error;
  }

  function within(ms, message, promise) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(failure(message)), ms);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
  }

  async function post(key, path, body) {
    let answer;
    let status;
    try {
      const response = await fetch(new URL(path, base), {
        method: "POST",
        credentials: "omit",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      status = response.status;
      answer = await response.json();
    } catch {
      throw failure(UNREACHABLE);
    }
    if (status === 201) return answer;
    if (status === 409) throw failure("This took too long. Please try again.", answer);
    if (status === 429 || status >= 500) throw failure("The payment service is busy. Please try again in a moment.", answer);
    throw failure("Paying by card is not available here at the moment.", answer);
  }

  function mount(key, target, options) {
    const place = typeof target === "string" ? document.querySelector(target) : target;
    if (!(place instanceof Element)) throw new Error("UnifiedPayments: there is no element to mount the card field in.");
    const intent = options && options.intent;
    let session = null;
    let frame = null;
    let submitting = null;
    let gone = false;

    async function startSession() {
      const began = performance.now();
      const made = await post(key, "v1/checkout_sessions", intent ? { intent } : {});
      return { id: made.sessionId, mountUrl: made.mountUrl, usedUp: false, began };
    }

    const isFresh = () => session !== null && !session.usedUp && performance.now() - session.began < FRESH_MS;

    // The frame stays for later sessions, so that a card which was declined can be corrected in it.
    function openFrame(mountUrl) {
      const element = document.createElement("iframe");
      const origin = new URL(mountUrl).origin;
      let hear = null;
      const listen = (event) => {
        if (event.source === element.contentWindow && event.origin === origin && event.data && hear) hear(event.data);
      };
      const opened = {
        close: () => {
          removeEventListener("message", listen);
          element.remove();
        },
        // What the card is worth: a token of the provider.
        ask: () => {
          const answer = new Promise((resolve, reject) => {
            hear = (data) => {
              if (data.type === "upstreamToken") resolve(data.upstreamToken);
              if (data.type === "error") reject(failure(String(data.message)));
            };
          });
          element.contentWindow.postMessage({ type: "submit" }, origin);
          return within(ANSWER_MS, "The card processor did not answer. Please try again.", answer);
        },
      };
      const ready = new Promise((resolve) => {
        hear = (data) => {
          if (data.type === "ready") resolve();
        };
      });
      addEventListener("message", listen);
      element.title = "Card details";
      element.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
      element.style.cssText = "display: block; width: 100%; height: 27rem; border: 0;";
      element.src = mountUrl;
      place.append(element);
      return within(READY_MS, UNREACHABLE, ready).then(
        () => opened,
        (error) => {
          opened.close();
          throw error;
        }
      );
    }

    async function prepare() {
      if (!isFresh()) session = await startSession();
      if (frame) return;
      const opened = await openFrame(session.mountUrl);
      if (gone) opened.close();
      else frame = opened;
    }

    // One preparation at a time; one that failed is begun anew by whoever comes next.
    let preparing = null;
    function prepared() {
      if (!preparing) {
        preparing = prepare().finally(() => {
          preparing = null;
        });
      }
      return preparing;
    }

    async function submit() {
      if (gone) throw failure("The card field has been closed.");
      await prepared();
      if (gone) throw failure("The card field has been closed.");
      const current = session;
      const upstreamToken = await frame.ask();
      try {
        const token = await post(key, "v1/tokens", { sessionId: current.id, upstreamToken });
        current.usedUp = true;
        return { paymentToken: token.paymentToken, expiresAt: token.expiresAt };
      } catch (error) {
        if (error.code === "conflict" || error.code === "not_found") current.usedUp = true;
        throw error;
      }
    }

    const ready = prepared();
    // Whoever does not look at `ready` hears of it from `submit`.
    ready.catch(() => {});
    return {
      // Resolves when the field can be typed into.
      ready,
      // Who presses the button twice gets the same token twice.
      submit: () => {
        if (!submitting) {
          submitting = submit().finally(() => {
            submitting = null;
          });
        }
        return submitting;
      },
      unmount: () => {
        gone = true;
        if (frame) frame.close();
        frame = null;
      },
    };
  }

  window.UnifiedPayments = (key) => {
    checkKey(key);
    return { mount: (target, options) => mount(key, target, options) };
  };
})();
