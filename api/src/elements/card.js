// Shared by payment pages and card fields: validates the inputs and exchanges the card for a token of the provider. The card is
// sent only there: the inputs have no names, so the form cannot submit them.
"use strict";

const createCardForm = (() => {
  const TEST_TOKENS = {
    "4000000000000002": "tok_declined",
    "4000000000000010": "tok_partial",
    "4000000000009995": "tok_insufficient",
    "4000000000009987": "tok_lost",
    "4000000000009979": "tok_stolen",
    "4000000000000069": "tok_expired",
    "4000000000000127": "tok_incorrect_cvc",
    "4000002500003155": "tok_authentication",
    "4000000000000259": "tok_disputed",
    "4000000000002685": "tok_disputed_won",
  };
  const BRANDS = [
    ["Visa", /^4/],
    ["Mastercard", /^(5[1-5]|2[2-7])/],
    ["American Express", /^3[47]/],
    ["Discover", /^(6011|64[4-9]|65)/],
    ["Diners Club", /^3(0[0-5]|[68])/],
    ["JCB", /^35/],
    ["UnionPay", /^62/],
  ];
  // Countries without postal codes; providers get zeros.
  const NO_POSTAL_CODE = new Set(
    ("AE AG AO AW BF BI BJ BO BS BW BZ CD CF CG CI CK CM DJ DM ER FJ GA GD GH GM GQ GY HK JM KI KM KP LC ML MO MR MW NR NU " +
      "QA RW SB SC SL SR SS ST SY TD TG TK TL TO TT TV UG VU YE ZW").split(" ")
  );
  const TIMEOUT_MS = 30000;

  // An error that the cardholder can correct, and its input.
  class InputError extends Error {
    constructor(message, input) {
      super(message);
      this.input = input;
    }
  }

  const digitsOf = (text) => text.replace(/[\s-]/g, "");
  const brandOf = (digits) => (BRANDS.find(([, pattern]) => pattern.test(digits)) || [""])[0];

  function passesLuhn(digits) {
    let sum = 0;
    for (let i = 0; i < digits.length; i += 1) {
      let digit = Number(digits[digits.length - 1 - i]);
      if (i % 2 === 1) {
        digit *= 2;
        if (digit > 9) digit -= 9;
      }
      sum += digit;
    }
    return sum % 10 === 0;
  }

  // Parses "4/29", "04 / 2029" and "0429".
  function expiryOf(text) {
    const match = /^\s*(\d{1,2})\s*[/.\-]?\s*(\d{2}|\d{4})\s*$/.exec(text);
    if (!match) return null;
    const month = Number(match[1]);
    const year = Number(match[2]) + (match[2].length === 2 ? 2000 : 0);
    return month >= 1 && month <= 12 ? { month, year } : null;
  }

  function grouped(digits) {
    const amex = brandOf(digits) === "American Express";
    const parts = amex ? [digits.slice(0, 4), digits.slice(4, 10), digits.slice(10)] : digits.match(/.{1,4}/g) || [];
    return parts.filter(Boolean).join(" ");
  }

  return (form) => {
    const texts = JSON.parse(form.dataset.texts);
    const inputs = {};
    for (const name of ["number", "expiry", "cvc", "name", "country", "postal-code"]) {
      inputs[name] = form.querySelector(`#card-${name}`);
    }
    const brand = form.querySelector("#card-brand");
    const error = form.querySelector("#card-error");
    const postal = inputs["postal-code"];

    const hasPostalCode = () => !NO_POSTAL_CODE.has(inputs.country.value);

    // Each returns the error message of an input, or an empty string.
    const CHECKS = {
      number: (text) => {
        const number = digitsOf(text);
        if (!number) return texts.enterNumber;
        const isValid = /^\d{12,19}$/.test(number) && passesLuhn(number);
        return isValid ? "" : texts.numberInvalid;
      },
      expiry: (text) => {
        if (!text.trim()) return texts.enterExpiry;
        const expiry = expiryOf(text);
        const now = new Date();
        if (!expiry || expiry.year > now.getFullYear() + 50) return texts.expiryMalformed;
        const months = ({ year, month }) => year * 12 + month;
        const isExpired = months(expiry) < months({ year: now.getFullYear(), month: now.getMonth() + 1 });
        return isExpired ? texts.cardExpired : "";
      },
      cvc: (text) => {
        const number = digitsOf(inputs.number.value);
        const amex = brandOf(number) === "American Express";
        const isValid = (number ? (amex ? /^\d{4}$/ : /^\d{3}$/) : /^\d{3,4}$/).test(text.trim());
        if (isValid) return "";
        return amex ? texts.enterCodeAmex : texts.enterCode;
      },
      name: (text) => (text.trim() ? "" : texts.enterName),
      country: () => "",
      "postal-code": (text) => (text.trim() || !hasPostalCode() ? "" : texts.enterPostalCode),
    };

    // Shows the error message of an input, or clears it.
    function mark(input, message) {
      form.querySelector(`#${input.id}-error`).textContent = message;
      if (message) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }

    const nameOf = (input) => Object.keys(inputs).find((name) => inputs[name] === input);
    const isMarked = (input) => input.hasAttribute("aria-invalid");

    function check(input) {
      const message = CHECKS[nameOf(input)](input.value);
      mark(input, message);
      return message;
    }

    // Marks every invalid input and throws the error of the first.
    function read() {
      const [first] = Object.values(inputs).map((input) => [check(input), input]).filter(([message]) => message);
      if (first) throw new InputError(...first);
      return {
        number: digitsOf(inputs.number.value),
        expiry: expiryOf(inputs.expiry.value),
        cvc: inputs.cvc.value.trim(),
        name: inputs.name.value.trim(),
        zip: hasPostalCode() ? postal.value.trim() : "0000",
        country: inputs.country.value,
      };
    }

    async function gatewayToken(card) {
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), TIMEOUT_MS);
      let result;
      try {
        const response = await fetch(form.dataset.tokenUrl, {
          method: "POST",
          credentials: "omit",
          referrerPolicy: "no-referrer",
          signal: stop.signal,
          body: new URLSearchParams({
            app_key: form.dataset.appKey,
            creditcard_number: card.number,
            expire_month: String(card.expiry.month).padStart(2, "0"),
            expire_year: String(card.expiry.year),
            cvv: card.cvc,
            name: card.name,
            zip_code: card.zip,
            country_code: card.country,
          }),
        });
        result = (await response.json()).response;
      } catch {
        throw new InputError(texts.processorUnreachable, null);
      } finally {
        clearTimeout(timer);
      }
      if (result && result.code === "00" && result.card_token) return result.card_token;
      const errors = {
        "02": [texts.numberInvalid, inputs.number],
        "03": [texts.expiryInvalid, inputs.expiry],
        "05": [texts.countryInvalid, inputs.country],
      };
      const [message, input] = errors[result && result.code] || [texts.cardInvalid, null];
      throw new InputError(message, input);
    }

    // For the mock provider nothing is sent.
    const mockToken = (card) => TEST_TOKENS[card.number] || "tok_ok";

    function clear() {
      error.textContent = "";
      for (const input of Object.values(inputs)) mark(input, "");
    }

    // Shows an error at its input, or below the form if it has none, and returns the message.
    function show(failure) {
      const message = failure instanceof InputError ? failure.message : texts.cardUnreadable;
      if (failure.input) {
        mark(failure.input, message);
        failure.input.focus();
      } else error.textContent = message;
      return message;
    }

    // A non-empty input is checked when it loses focus. Not while the pointer is down: a new message would move the pressed button
    // away.
    let pointerDown = false;
    const unchecked = new Set();
    function checkPending() {
      if (pointerDown) return;
      for (const input of unchecked) check(input);
      unchecked.clear();
    }
    document.addEventListener("pointerdown", () => { pointerDown = true; }, true);
    for (const kind of ["pointerup", "pointercancel"]) {
      document.addEventListener(kind, () => {
        pointerDown = false;
        setTimeout(checkPending);
      }, true);
    }
    form.addEventListener("focusout", ({ target }) => {
      if (!nameOf(target) || !target.value.trim()) return;
      unchecked.add(target);
      // The length of the security code depends on the card brand.
      if (target === inputs.number && isMarked(inputs.cvc)) unchecked.add(inputs.cvc);
      checkPending();
    });

    // Input is formatted only while typing at the end, so that a caret in the middle does not move.
    const atEnd = (input) => input.selectionStart === input.value.length;

    function formatNumber(event) {
      const digits = digitsOf(inputs.number.value);
      brand.textContent = brandOf(digits);
      if (/^\d*$/.test(digits) && (event.type === "change" || atEnd(inputs.number))) inputs.number.value = grouped(digits);
    }

    function formatExpiry(event) {
      const input = inputs.expiry;
      if (event.type === "change") {
        const expiry = expiryOf(input.value);
        if (expiry) input.value = `${String(expiry.month).padStart(2, "0")} / ${String(expiry.year % 100).padStart(2, "0")}`;
        return;
      }
      if (!atEnd(input) || (event.inputType || "").startsWith("delete")) return;
      if (/^[2-9]$/.test(input.value)) input.value = `0${input.value} / `;
      else if (/^(0[1-9]|1[0-2])$/.test(input.value)) input.value += " / ";
      else if (/^[1-9]\/$/.test(input.value)) input.value = `0${input.value[0]} / `;
      else if (/^(\d{2}) \/ \/$/.test(input.value)) input.value = input.value.slice(0, -1);
    }

    function nameCountries() {
      const select = inputs.country;
      const region = (/[-_]([A-Z]{2})$/.exec(navigator.language || "") || [])[1];
      const selected = select.querySelector(`option[value="${region || "US"}"]`) ? region || "US" : "US";
      if (typeof Intl.DisplayNames === "function") {
        const names = new Intl.DisplayNames([document.documentElement.lang || "en"], { type: "region" });
        for (const option of select.options) option.textContent = names.of(option.value) || option.value;
        const sorted = [...select.options].sort((a, b) => a.textContent.localeCompare(b.textContent));
        select.append(...sorted);
      }
      select.value = selected;
    }

    const showPostalCode = () => {
      postal.closest(".field").hidden = !hasPostalCode();
    };

    nameCountries();
    showPostalCode();
    inputs.country.addEventListener("change", showPostalCode);
    for (const kind of ["input", "change"]) {
      inputs.number.addEventListener(kind, formatNumber);
      inputs.expiry.addEventListener(kind, formatExpiry);
    }
    form.addEventListener("input", ({ target }) => {
      unchecked.delete(target);
      if (nameOf(target) && isMarked(target)) mark(target, "");
    });

    return {
      // Resolves to a token for the entered card; rejects with an error for `show`.
      token: async () => {
        const card = read();
        return form.dataset.provider === "mock" ? mockToken(card) : gatewayToken(card);
      },
      show,
      clear,
      // The security code is not kept after an attempt.
      clearCode: () => {
        inputs.cvc.value = "";
      },
    };
  };
})();
