// The card proxy script: replaces a card number by a proxy number, so that the page's server never sees the card.
//
//   GatewayProxynizationAPI.process("#card", "done")   // the id of the field, or the number itself
//   function done(responseCode, responseMessage, proxyNumber) { if (responseCode === "A01") { … } }
//
// If the page sets GatewayProxynizationAPI.appKey, no other account can use the proxy numbers.
(function () {
  "use strict";
  // Elements with a name replace properties of `document`, such as <img name="currentScript">, but not those of its prototype.
  var currentScript = Object.getOwnPropertyDescriptor(Document.prototype, "currentScript").get;
  var querySelector = Document.prototype.querySelector;
  // In a module or a bundle there is no current script. The endpoint is relative to the script's URL.
  var script = currentScript.call(document) || querySelector.call(document, 'script[src*="/services/proxynization_api.js"]');
  var endpoint = new URL("proxynization", script.src).href;

  function protect(number, callback) {
    var form = new URLSearchParams({ creditcard_number: number });
    var appKey = window.GatewayProxynizationAPI.appKey;
    if (appKey) form.set("app_key", appKey);
    fetch(endpoint, {
      method: "POST",
      body: form,
      credentials: "omit"
    })
      .then(function (response) { return response.json(); })
      .then(function (body) {
        var response = body.response;
        return [response.code, response.description, response.code === "A01" ? response.proxy_number : ""];
      })
      .catch(function () { return ["E01", "The card could not be protected; please try again", ""]; })
      .then(function (result) { callback(result[0], result[1], result[2]); });
  }

  window.GatewayProxynizationAPI = {
    // The page's account, optional.
    appKey: "",
    // Always returns false, so that onsubmit="return GatewayProxynizationAPI.process(…)" does not submit the form before the
    // callback. It never throws, because the browser would then submit the form with the card number.
    process: function (first, callbackName) {
      var callback = window[callbackName];
      if (typeof callback !== "function") {
        console.error("GatewayProxynizationAPI: function " + callbackName + " does not exist");
        return false;
      }
      var number = String(first);
      if (number.charAt(0) !== "#") {
        protect(number, callback);
        return false;
      }
      var field = Document.prototype.getElementById.call(document, number.slice(1));
      if (field) {
        protect(field.value, callback);
      } else {
        setTimeout(callback, 0, "E02", "Field " + number + " does not exist", "");
      }
      return false;
    }
  };
})();
