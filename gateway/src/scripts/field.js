// The capture field. It speaks with the page that frames it, and with no other:
//   frame → page: {type: "ready"}, {type: "upstreamToken", upstreamToken}, {type: "error", message}
//   page → frame: {type: "submit"}
(function () {
  "use strict";
  var origin = document.body.dataset.origin;
  var form = document.getElementById("card");
  var busy = false;

  function tell(message) {
    window.parent.postMessage(message, origin);
  }

  function submit() {
    if (busy) { return; }
    busy = true;
    var fields = new URLSearchParams(new FormData(form));
    fields.set("app_key", document.body.dataset.appKey);
    fetch("/services/field_token", { method: "POST", body: fields, credentials: "omit" })
      .then(function (response) { return response.json(); })
      .then(function (body) {
        var said = body.response;
        if (said.code === "00") {
          tell({ type: "upstreamToken", upstreamToken: said.card_token });
        } else {
          tell({ type: "error", message: said.description });
        }
      }, function () {
        tell({ type: "error", message: "The card could not be sent; please try again" });
      })
      .then(function () { busy = false; });
  }

  form.addEventListener("submit", function (event) { event.preventDefault(); });
  window.addEventListener("message", function (event) {
    if (event.origin === origin && event.source === window.parent && event.data && event.data.type === "submit") {
      submit();
    }
  });
  tell({ type: "ready" });
})();
