// Card fields in merchants' pages (docs/elements.md). The card is entered in an iframe of this service and goes directly to the
// provider; the page gets a payment token.
//
//   const card = UnifiedPayments("svc_pk_…").mount("#card");
//   const { paymentToken } = await card.submit();
(() => {
  "use strict";
  // Elements with a name replace properties of `document`, such as <img name="currentScript">, but not those of its prototype.
  const { get: currentScript } = Object.getOwnPropertyDescriptor(Document.prototype, "currentScript");
  const { createElement, querySelector } = Document.prototype;
  const script = currentScript.call(document) || querySelector.call(document, 'script[src*="/elements/v1."]');
  const base = new URL("..", script.src);
  // Sessions are valid for 30 minutes; one older than this is replaced.
  const MAX_SESSION_AGE_MS = 25 * 60 * 1000;
  const READY_TIMEOUT_MS = 20 * 1000;
  const TOKEN_TIMEOUT_MS = 60 * 1000;
  const UNREACHABLE = "The payment service could not be reached. Please try again.";

  function checkKey(key) {
    if (typeof key === "string" && key.trim().startsWith("svc_sk_")) {
      throw new Error(
        "UnifiedPayments: this is a secret key. It must never be in a browser: revoke it, and use the publishable key (svc_pk_…)."
      );
    }
    if (typeof key !== "string" || !/^svc_pk_(test|live)_[A-Za-z0-9_-]+$/.test(key)) {
      throw new Error("UnifiedPayments: a publishable key (svc_pk_…) is required.");
    }
  }

  // The message is for the cardholder; `code` and `detail` are for the developer.
  function failure(message, body) {
    const error = new Error(message);
    const details = (body && body.error) || {};
    if (details.code) error.code = details.code;
    if (details.message) error.detail = details.message;
    return error;
  }

  function withTimeout(ms, message, promise) {
    let timer;
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(() => reject(failure(message)), ms);
    });
    return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
  }

  async function post(key, path, body) {
    let result;
    let status;
    try {
      const response = await fetch(new URL(path, base), {
        method: "POST",
        credentials: "omit",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      status = response.status;
      result = await response.json();
    } catch {
      throw failure(UNREACHABLE);
    }
    if (status === 201) return result;
    if (status === 409) throw failure("This took too long. Please try again.", result);
    if (status === 429 || status >= 500) throw failure("The payment service is busy. Please try again in a moment.", result);
    throw failure("Paying by card is not available here at the moment.", result);
  }

  function mount(key, target, options) {
    const container = typeof target === "string" ? querySelector.call(document, target) : target;
    if (!(container instanceof Element)) {
      throw new Error("UnifiedPayments: the element to mount the card field in was not found.");
    }
    const intent = options && options.intent;
    let session = null;
    let frame = null;
    let submitting = null;
    let unmounted = false;

    async function startSession() {
      const startedAt = performance.now();
      const created = await post(key, "v1/checkout_sessions", intent ? { intent } : {});
      return { id: created.sessionId, mountUrl: created.mountUrl, used: false, startedAt };
    }

    const isFresh = () => session !== null && !session.used && performance.now() - session.startedAt < MAX_SESSION_AGE_MS;

    // The frame is kept for later sessions, so that a declined card can be corrected in it.
    function openFrame(mountUrl) {
      const element = createElement.call(document, "iframe");
      const origin = new URL(mountUrl).origin;
      let onMessage = null;
      const listen = (event) => {
        if (event.source === element.contentWindow && event.origin === origin && event.data && onMessage) onMessage(event.data);
      };
      const opened = {
        close: () => {
          removeEventListener("message", listen);
          element.remove();
        },
        // Resolves to the provider's token for the card.
        requestToken: () => {
          const token = new Promise((resolve, reject) => {
            onMessage = (data) => {
              if (data.type === "upstreamToken") resolve(data.upstreamToken);
              if (data.type === "error") reject(failure(String(data.message)));
            };
          });
          element.contentWindow.postMessage({ type: "submit" }, origin);
          return withTimeout(TOKEN_TIMEOUT_MS, "The card processor did not respond. Please try again.", token);
        },
      };
      const ready = new Promise((resolve) => {
        onMessage = (data) => {
          if (data.type === "ready") resolve();
        };
      });
      addEventListener("message", listen);
      element.title = "Card details";
      element.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
      element.style.cssText = "display: block; width: 100%; height: 27rem; border: 0;";
      element.src = mountUrl;
      container.append(element);
      return withTimeout(READY_TIMEOUT_MS, UNREACHABLE, ready).then(
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
      if (unmounted) opened.close();
      else frame = opened;
    }

    // Calls share a preparation in progress; after a failure the next call retries.
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
      if (unmounted) throw failure("The card field has been closed.");
      await prepared();
      if (unmounted) throw failure("The card field has been closed.");
      const current = session;
      const upstreamToken = await frame.requestToken();
      try {
        const token = await post(key, "v1/tokens", { sessionId: current.id, upstreamToken });
        current.used = true;
        return { paymentToken: token.paymentToken, expiresAt: token.expiresAt };
      } catch (error) {
        if (error.code === "conflict" || error.code === "not_found") current.used = true;
        throw error;
      }
    }

    const ready = prepared();
    // Prevents an unhandled rejection: `submit` reports the error too.
    ready.catch(() => {});
    return {
      // Resolves when the field accepts input.
      ready,
      // Concurrent calls get the same token.
      submit: () => {
        if (!submitting) {
          submitting = submit().finally(() => {
            submitting = null;
          });
        }
        return submitting;
      },
      unmount: () => {
        unmounted = true;
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
