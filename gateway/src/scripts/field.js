// The capture field. It speaks with the page that frames it, and with no other:
//   frame → page: {type: "ready"}, {type: "upstreamToken", upstreamToken}, {type: "error", message}
//   page → frame: {type: "submit"}
(function () {
  "use strict";
  var origin = document.body.dataset.origin;
  var form = document.getElementById("card");
  // They have ids and no names: a form that is submitted by mistake has nothing in it.
  var inputs = Array.from(form.querySelectorAll("input"));
  var fault = document.getElementById("fault");
  // What a code is about. A1 names the field itself.
  var places = { "02": "creditcard_number", "03": "expire_month", "05": "country_code" };
  var busy = false;

  function tell(message) {
    window.parent.postMessage(message, origin);
  }

  function clear() {
    fault.textContent = "";
    inputs.forEach(function (input) { input.removeAttribute("aria-invalid"); });
  }

  function refuse(code, message) {
    var words = message.split(" ");
    var wrong = inputs.find(function (input) {
      return code === "A1" ? words.indexOf(input.id) >= 0 : input.id === places[code];
    });
    if (wrong) {
      wrong.setAttribute("aria-invalid", "true");
      wrong.focus();
    }
    fault.textContent = message;
    tell({ type: "error", message: message });
  }

  function answered(body) {
    var said = body.response;
    if (said.code === "00") {
      tell({ type: "upstreamToken", upstreamToken: said.card_token });
    } else {
      refuse(said.code, said.description);
    }
  }

  function submit() {
    if (busy) { return; }
    busy = true;
    clear();
    var fields = new URLSearchParams({ app_key: document.body.dataset.appKey });
    inputs.forEach(function (input) { fields.set(input.id, input.value); });
    fetch("field_token", { method: "POST", body: fields, credentials: "omit" })
      .then(function (response) { return response.json(); })
      .then(answered)
      .catch(function () { refuse("", "The card could not be sent; please try again"); })
      .finally(function () { busy = false; });
  }

  form.addEventListener("submit", function (event) { event.preventDefault(); });
  window.addEventListener("message", function (event) {
    if (event.origin === origin && event.source === window.parent && event.data && event.data.type === "submit") {
      submit();
    }
  });
  tell({ type: "ready" });
})();
