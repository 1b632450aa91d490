// Card fields in merchants' pages (docs/elements.md). The card is entered in an iframe of this service and goes directly to the
// provider; the page gets a payment token.
//
//   const card = UnifiedPayments("svc_pk_…").mount("#card", { language: "de", appearance: { theme: "auto" } });
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
  // The service inserts the texts of each language.
  const TEXTS = {"de":{"busy":"Der Zahlungsdienst ist ausgelastet. Bitte versuchen Sie es gleich noch einmal.","cardDetails":"Kartendaten","closed":"Das Kartenfeld wurde geschlossen.","notAvailable":"Kartenzahlung ist hier zurzeit nicht möglich.","processorSilent":"Der Zahlungsdienstleister hat nicht geantwortet. Bitte versuchen Sie es erneut.","tookTooLong":"Das hat zu lange gedauert. Bitte versuchen Sie es erneut.","unreachable":"Der Zahlungsdienst war nicht erreichbar. Bitte versuchen Sie es erneut."},"en":{"busy":"The payment service is busy. Please try again in a moment.","cardDetails":"Card details","closed":"The card field has been closed.","notAvailable":"Paying by card is not available here at the moment.","processorSilent":"The card processor did not respond. Please try again.","tookTooLong":"This took too long. Please try again.","unreachable":"The payment service could not be reached. Please try again."},"es":{"busy":"El servicio de pago está saturado. Inténtelo de nuevo en un momento.","cardDetails":"Datos de la tarjeta","closed":"El campo de tarjeta se ha cerrado.","notAvailable":"En este momento no es posible pagar aquí con tarjeta.","processorSilent":"El procesador de pagos no ha respondido. Inténtelo de nuevo.","tookTooLong":"La operación ha tardado demasiado. Inténtelo de nuevo.","unreachable":"No se ha podido contactar con el servicio de pago. Inténtelo de nuevo."},"fr":{"busy":"Le service de paiement est très sollicité. Veuillez réessayer dans un instant.","cardDetails":"Données de la carte","closed":"Le champ de carte a été fermé.","notAvailable":"Le paiement par carte n’est pas disponible ici pour le moment.","processorSilent":"Le prestataire de paiement n’a pas répondu. Veuillez réessayer.","tookTooLong":"L’opération a pris trop de temps. Veuillez réessayer.","unreachable":"Le service de paiement n’a pas pu être joint. Veuillez réessayer."},"ja":{"busy":"決済サービスが混み合っています。少し待ってからもう一度お試しください。","cardDetails":"カード情報","closed":"カード入力欄は閉じられました。","notAvailable":"現在、こちらではカードでのお支払いをご利用いただけません。","processorSilent":"決済代行会社から応答がありませんでした。もう一度お試しください。","tookTooLong":"処理に時間がかかりすぎました。もう一度お試しください。","unreachable":"決済サービスに接続できませんでした。もう一度お試しください。"}};
  const THEMES = ["light", "dark", "auto"];
  // Of the field, until it has sent its own, and at most, in pixels.
  const FIRST_HEIGHT = 432;
  const MAX_HEIGHT = 2000;

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

  // The chosen language or the browser's, if there are texts in it, or English.
  function languageOf(options) {
    const wanted = options && options.language ? [options.language] : navigator.languages || [];
    return wanted.map((tag) => String(tag).toLowerCase().split("-")[0]).find((code) => TEXTS[code]) || "en";
  }

  function themeOf(options) {
    const theme = (options && options.appearance && options.appearance.theme) || "light";
    if (!THEMES.includes(theme)) throw new Error(`UnifiedPayments: appearance.theme must be one of ${THEMES.join(", ")}.`);
    return theme;
  }

  async function post(texts, key, path, body) {
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
      throw failure(texts.unreachable);
    }
    if (status === 201) return result;
    if (status === 409) throw failure(texts.tookTooLong, result);
    if (status === 429 || status >= 500) throw failure(texts.busy, result);
    throw failure(texts.notAvailable, result);
  }

  function mount(key, target, options) {
    const container = typeof target === "string" ? querySelector.call(document, target) : target;
    if (!(container instanceof Element)) {
      throw new Error("UnifiedPayments: the element to mount the card field in was not found.");
    }
    const intent = options && options.intent;
    const language = languageOf(options);
    const theme = themeOf(options);
    const variables = options && options.appearance && options.appearance.variables;
    const texts = TEXTS[language];
    let session = null;
    let frame = null;
    let submitting = null;
    let unmounted = false;
    let notice = null;

    async function startSession() {
      const startedAt = performance.now();
      const created = await post(texts, key, "v1/checkout_sessions", intent ? { intent } : {});
      return { id: created.sessionId, mountUrl: created.mountUrl, used: false, startedAt };
    }

    const isFresh = () => session !== null && !session.used && performance.now() - session.startedAt < MAX_SESSION_AGE_MS;

    // The frame is kept for later sessions, so that a declined card can be corrected in it.
    function openFrame(mountUrl) {
      const element = createElement.call(document, "iframe");
      const origin = new URL(mountUrl).origin;
      let onMessage = null;
      const listen = (event) => {
        if (event.source !== element.contentWindow || event.origin !== origin || !event.data) return;
        if (event.data.type === "height") element.style.height = `${Math.min(Number(event.data.height) || 0, MAX_HEIGHT)}px`;
        if (onMessage) onMessage(event.data);
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
          return withTimeout(TOKEN_TIMEOUT_MS, texts.processorSilent, token);
        },
      };
      const ready = new Promise((resolve) => {
        onMessage = (data) => {
          if (data.type !== "ready") return;
          element.contentWindow.postMessage({ type: "configure", variables }, origin);
          resolve();
        };
      });
      addEventListener("message", listen);
      element.title = texts.cardDetails;
      element.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
      element.style.cssText = `display: block; width: 100%; height: ${FIRST_HEIGHT}px; border: 0; color-scheme: ${theme === "auto" ? "light dark" : theme};`;
      const url = new URL(mountUrl);
      url.searchParams.set("lang", language);
      url.searchParams.set("theme", theme);
      element.src = url.href;
      container.append(element);
      return withTimeout(READY_TIMEOUT_MS, texts.unreachable, ready).then(
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
      if (notice) notice.remove();
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
      if (unmounted) throw failure(texts.closed);
      await prepared();
      if (unmounted) throw failure(texts.closed);
      const current = session;
      const upstreamToken = await frame.requestToken();
      try {
        const token = await post(texts, key, "v1/tokens", { sessionId: current.id, upstreamToken });
        current.used = true;
        return { paymentToken: token.paymentToken, expiresAt: token.expiresAt };
      } catch (error) {
        if (error.code === "conflict" || error.code === "not_found") current.used = true;
        throw error;
      }
    }

    // Instead of an empty place. With a test key it tells the developer why, such as an origin that is not allowed.
    function explain(error) {
      if (unmounted) return;
      if (error.detail) console.error(`UnifiedPayments: ${error.detail}`);
      notice = createElement.call(document, "p");
      notice.setAttribute("role", "alert");
      notice.textContent = error.detail && key.startsWith("svc_pk_test_") ? `${error.message} (${error.detail})` : error.message;
      container.append(notice);
    }

    const ready = prepared();
    // Also prevents an unhandled rejection: `submit` reports the error too.
    ready.catch(explain);
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
        if (notice) notice.remove();
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
