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
  const PATIENCE_MS = 30000;

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

    function read() {
      const number = digitsOf(inputs.number.value);
      if (!number) throw new Fault("Please enter the card number.", inputs.number);
      if (!/^\d{12,19}$/.test(number) || !passesLuhn(number)) {
        throw new Fault("The card number is not right. Please check it.", inputs.number);
      }
      if (!inputs.expiry.value.trim()) throw new Fault("Please enter the expiry date.", inputs.expiry);
      const expiry = expiryOf(inputs.expiry.value);
      if (!expiry) throw new Fault("The expiry date is not right. Enter month and year, such as 04 / 29.", inputs.expiry);
      const now = new Date();
      if (expiry.year * 12 + expiry.month < now.getFullYear() * 12 + now.getMonth() + 1) {
        throw new Fault("The card has expired. Please check the date, or use another card.", inputs.expiry);
      }
      if (expiry.year > now.getFullYear() + 50) {
        throw new Fault("The expiry date is not right. Enter month and year, such as 04 / 29.", inputs.expiry);
      }
      const cvc = inputs.cvc.value.trim();
      const amex = brandOf(number) === "American Express";
      if (!(amex ? /^\d{4}$/ : /^\d{3}$/).test(cvc)) {
        const where = amex ? "4 digits on the front of the card" : "3 digits on the back of the card";
        throw new Fault(`Please enter the security code: ${where}.`, inputs.cvc);
      }
      const name = inputs.name.value.trim();
      if (!name) throw new Fault("Please enter the name on the card.", inputs.name);
      const zip = hasPostalCode() ? postal.value.trim() : "0000";
      if (!zip) throw new Fault("Please enter the postal code.", postal);
      return { number, expiry, cvc, name, zip, country: inputs.country.value };
    }

    async function ofGateway(card) {
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), PATIENCE_MS);
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
      for (const input of Object.values(inputs)) {
        if (input.getAttribute("aria-invalid")) {
          input.removeAttribute("aria-invalid");
          describe(input, input.dataset.hint);
        }
      }
    }

    function describe(input, ids) {
      if (ids) input.setAttribute("aria-describedby", ids);
      else input.removeAttribute("aria-describedby");
    }

    function show(fault) {
      clear();
      error.textContent = fault instanceof Fault ? fault.message : "The card could not be read. Please try again.";
      const input = fault.input;
      if (!input) return;
      input.setAttribute("aria-invalid", "true");
      describe(input, [input.dataset.hint, "card-error"].filter(Boolean).join(" "));
      input.focus();
    }

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
    form.addEventListener("input", (event) => {
      if (event.target.getAttribute("aria-invalid")) clear();
    });

    return {
      // A token for the card that was entered; or a fault, for `show`.
      token: async () => {
        const card = read();
        return form.dataset.provider === "mock" ? ofMock(card) : ofGateway(card);
      },
      show,
      clear,
    };
  };
})();
