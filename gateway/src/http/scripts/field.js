// The card field. It exchanges messages with the page that frames it, and with no other:
//   frame → page: {type: "ready"}, {type: "upstreamToken", upstreamToken}, {type: "error", message}
//   page → frame: {type: "submit"}
(function () {
  "use strict";
  var origin = document.body.dataset.origin;
  var form = document.getElementById("card");
  // The inputs have ids but no names, so that a form submitted by mistake contains no data.
  var inputs = Array.from(form.querySelectorAll("input"));
  var error = document.getElementById("error");
  // The inputs by error code. The description of A1 contains the input's id.
  var inputByCode = { "02": "creditcard_number", "03": "expire_month", "04": "name", "05": "country_code" };
  var busy = false;

  function post(message) {
    window.parent.postMessage(message, origin);
  }

  function clear() {
    error.textContent = "";
    inputs.forEach(function (input) { input.removeAttribute("aria-invalid"); });
  }

  function showError(code, message) {
    var words = message.split(" ");
    var invalid = inputs.find(function (input) {
      return code === "A1" ? words.indexOf(input.id) >= 0 : input.id === inputByCode[code];
    });
    if (invalid) {
      invalid.setAttribute("aria-invalid", "true");
      invalid.focus();
    }
    error.textContent = message;
    post({ type: "error", message: message });
  }

  function handleResponse(body) {
    var response = body.response;
    if (response.code === "00") {
      post({ type: "upstreamToken", upstreamToken: response.card_token });
    } else {
      showError(response.code, response.description);
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
      .then(handleResponse)
      .catch(function () { showError("", "The card could not be sent; please try again"); })
      .finally(function () { busy = false; });
  }

  form.addEventListener("submit", function (event) { event.preventDefault(); });
  window.addEventListener("message", function (event) {
    if (event.origin === origin && event.source === window.parent && event.data && event.data.type === "submit") {
      submit();
    }
  });
  post({ type: "ready" });
})();
