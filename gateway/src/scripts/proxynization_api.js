// The card proxy script: puts a proxy number in place of a card number, so that the page's server never sees the card.
//
//   GatewayProxynizationAPI.process("#card", "done")   // the id of the field, or the number itself
//   function done(responseCode, responseMessage, proxyNumber) { if (responseCode === "A01") { … } }
(function () {
  "use strict";
  var base = new URL(document.currentScript.src).origin;

  function answer(callbackName, code, message, proxyNumber) {
    var callback = window[callbackName];
    if (typeof callback !== "function") {
      throw new Error("GatewayProxynizationAPI: there is no function " + callbackName);
    }
    callback(code, message, proxyNumber);
  }

  window.GatewayProxynizationAPI = {
    process: function (first, callbackName) {
      var number = String(first);
      if (number.charAt(0) === "#") {
        var field = document.getElementById(number.slice(1));
        if (!field) {
          answer(callbackName, "E02", "There is no field " + number, "");
          return false;
        }
        number = field.value;
      }
      fetch(base + "/services/proxynization", {
        method: "POST",
        body: new URLSearchParams({ creditcard_number: number }),
        credentials: "omit"
      })
        .then(function (response) { return response.json(); })
        .then(function (body) {
          var said = body.response;
          if (said.code === "A01") {
            answer(callbackName, "A01", said.description, said.proxy_number);
          } else {
            answer(callbackName, said.code, said.description, "");
          }
        }, function () {
          answer(callbackName, "E01", "The card could not be protected; please try again", "");
        });
      // So that onsubmit="return GatewayProxynizationAPI.process(…)" waits for the callback.
      return false;
    }
  };
})();
