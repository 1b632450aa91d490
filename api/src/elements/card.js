// What payment pages and card fields share: reading the inputs, and changing the card for a token at the provider. The card goes
// there and nowhere else: no input has a name, so not even the form could send it.
"use strict";

const cardOf = (() => {
  const TEST_TOKENS = {
    "4000000000000002": "tok_declined",
    "4000000000000010": "tok_partial",
    "4000000000009995": "tok_insufficient",
    "4000000000009987": "tok_lost",
    "4000000000009979": "tok_stolen",
    "4000000000000069": "tok_expired",
    "4000000000000127": "tok_incorrect_cvc",
    "4000002500003155": "tok_authentication",
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
  // Countries that have no postal codes; providers are told zeros.
  const NO_POSTAL_CODE = new Set(
    ("AE AG AO AW BF BI BJ BO BS BW BZ CD CF CG CI CK CM DJ DM ER FJ GA GD GH GM GQ GY HK JM KI KM KP LC ML MO MR MW NR NU " +
      "QA RW SB SC SL SR SS ST SY TD TG TK TL TO TT TV UG VU YE ZW").split(" ")
  );
  const ANSWER_WITHIN_MS = 30000;

  // What a person can put right, and where.
  class Fault extends Error {
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

  // Month and year of "4/29", "04 / 2029", "0429".
  function expiryOf(text) {
    const found = /^\s*(\d{1,2})\s*[/.\-]?\s*(\d{2}|\d{4})\s*$/.exec(text);
    if (!found) return null;
    const month = Number(found[1]);
    const year = Number(found[2]) + (found[2].length === 2 ? 2000 : 0);
    return month >= 1 && month <= 12 ? { month, year } : null;
  }

  function grouped(digits) {
    const amex = brandOf(digits) === "American Express";
    const parts = amex ? [digits.slice(0, 4), digits.slice(4, 10), digits.slice(10)] : digits.match(/.{1,4}/g) || [];
    return parts.filter(Boolean).join(" ");
  }

  return (form) => {
    const inputs = {};
    for (const name of ["number", "expiry", "cvc", "name", "country", "postal-code"]) {
      inputs[name] = form.querySelector(`#card-${name}`);
    }
    const brand = form.querySelector("#card-brand");
    const error = form.querySelector("#card-error");
    const postal = inputs["postal-code"];

    const hasPostalCode = () => !NO_POSTAL_CODE.has(inputs.country.value);

    // What is wrong with an input as it stands; nothing if nothing is.
    const CHECKS = {
      number: (text) => {
        const number = digitsOf(text);
        if (!number) return "Please enter the card number.";
        const isRight = /^\d{12,19}$/.test(number) && passesLuhn(number);
        return isRight ? "" : "The card number is not right. Please check it.";
      },
      expiry: (text) => {
        if (!text.trim()) return "Please enter the expiry date.";
        const expiry = expiryOf(text);
        const now = new Date();
        if (!expiry || expiry.year > now.getFullYear() + 50) {
          return "The expiry date is not right. Enter month and year, such as 04 / 29.";
        }
        const months = ({ year, month }) => year * 12 + month;
        const isOver = months(expiry) < months({ year: now.getFullYear(), month: now.getMonth() + 1 });
        return isOver ? "The card has expired. Please check the date, or use another card." : "";
      },
      cvc: (text) => {
        const number = digitsOf(inputs.number.value);
        const amex = brandOf(number) === "American Express";
        const isRight = (number ? (amex ? /^\d{4}$/ : /^\d{3}$/) : /^\d{3,4}$/).test(text.trim());
        const where = amex ? "4 digits on the front of the card" : "3 digits on the back of the card";
        return isRight ? "" : `Please enter the security code: ${where}.`;
      },
      name: (text) => (text.trim() ? "" : "Please enter the name on the card."),
      country: () => "",
      "postal-code": (text) => (text.trim() || !hasPostalCode() ? "" : "Please enter the postal code."),
    };

    // Says at an input what is wrong with it, or that nothing is any more.
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

    // Every input is marked that is wrong; the first of them is the fault.
    function read() {
      const [first] = Object.values(inputs).map((input) => [check(input), input]).filter(([message]) => message);
      if (first) throw new Fault(...first);
      return {
        number: digitsOf(inputs.number.value),
        expiry: expiryOf(inputs.expiry.value),
        cvc: inputs.cvc.value.trim(),
        name: inputs.name.value.trim(),
        zip: hasPostalCode() ? postal.value.trim() : "0000",
        country: inputs.country.value,
      };
    }

    async function ofGateway(card) {
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), ANSWER_WITHIN_MS);
      let said;
      try {
        const answer = await fetch(form.dataset.tokenUrl, {
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
        said = (await answer.json()).response;
      } catch {
        throw new Fault("The card processor could not be reached. Nothing was charged; please try again.", null);
      } finally {
        clearTimeout(timer);
      }
      if (said && said.code === "00" && said.card_token) return said.card_token;
      const faults = {
        "02": ["The card number is not right. Please check it.", inputs.number],
        "03": ["The expiry date is not right. Please check it.", inputs.expiry],
        "05": ["The country is not right. Please check it.", inputs.country],
      };
      const [message, input] = faults[said && said.code] || ["The card could not be read. Please check what you entered.", null];
      throw new Fault(message, input);
    }

    // At the mock nothing is sent anywhere.
    const ofMock = (card) => TEST_TOKENS[card.number] || "tok_ok";

    function clear() {
      error.textContent = "";
      for (const input of Object.values(inputs)) mark(input, "");
    }

    // Says what is wrong at its input, or below all where it is about none, and answers what it has said.
    function show(fault) {
      const message = fault instanceof Fault ? fault.message : "The card could not be read. Please try again.";
      if (fault.input) {
        mark(fault.input, message);
        fault.input.focus();
      } else error.textContent = message;
      return message;
    }

    // An input is checked when it is left with something in it. While the mouse is pressed nothing is said: what is pressed
    // would move away from under it.
    let pressed = false;
    const left = new Set();
    function checkLeft() {
      if (pressed) return;
      for (const input of left) check(input);
      left.clear();
    }
    document.addEventListener("pointerdown", () => { pressed = true; }, true);
    for (const kind of ["pointerup", "pointercancel"]) {
      document.addEventListener(kind, () => {
        pressed = false;
        setTimeout(checkLeft);
      }, true);
    }
    form.addEventListener("focusout", ({ target }) => {
      if (!nameOf(target) || !target.value.trim()) return;
      left.add(target);
      // Which digits a security code has depends on the card.
      if (target === inputs.number && isMarked(inputs.cvc)) left.add(inputs.cvc);
      checkLeft();
    });

    // Only what is typed at the end is put in order: a caret in the middle stays where it is.
    const atEnd = (input) => input.selectionStart === input.value.length;

    function tidyNumber(event) {
      const digits = digitsOf(inputs.number.value);
      brand.textContent = brandOf(digits);
      if (/^\d*$/.test(digits) && (event.type === "change" || atEnd(inputs.number))) inputs.number.value = grouped(digits);
    }

    function tidyExpiry(event) {
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
      const chosen = select.querySelector(`option[value="${region || "US"}"]`) ? region || "US" : "US";
      if (typeof Intl.DisplayNames === "function") {
        const names = new Intl.DisplayNames([document.documentElement.lang || "en"], { type: "region" });
        for (const option of select.options) option.textContent = names.of(option.value) || option.value;
        const sorted = [...select.options].sort((one, other) => one.textContent.localeCompare(other.textContent));
        select.append(...sorted);
      }
      select.value = chosen;
    }

    const showPostalCode = () => {
      postal.closest(".field").hidden = !hasPostalCode();
    };

    nameCountries();
    showPostalCode();
    inputs.country.addEventListener("change", showPostalCode);
    for (const kind of ["input", "change"]) {
      inputs.number.addEventListener(kind, tidyNumber);
      inputs.expiry.addEventListener(kind, tidyExpiry);
    }
    form.addEventListener("input", ({ target }) => {
      left.delete(target);
      if (nameOf(target) && isMarked(target)) mark(target, "");
    });

    return {
      // A token for the card that was entered; or a fault, for `show`.
      token: async () => {
        const card = read();
        return form.dataset.provider === "mock" ? ofMock(card) : ofGateway(card);
      },
      show,
      clear,
      // It is kept no longer than for one try.
      forgetCode: () => {
        inputs.cvc.value = "";
      },
    };
  };
})();
