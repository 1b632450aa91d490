// The card proxy script: puts a proxy number in place of a card number, so that the page's server never sees the card.
//
//   GatewayProxynizationAPI.process("#card", "done")   // the id of the field, or the number itself
//   function done(responseCode, responseMessage, proxyNumber) { if (responseCode === "A01") { … } }
//
// A page that sets GatewayProxynizationAPI.appKey gets numbers that no other account can use.
(function () {
  "use strict";
  // A module or a bundle has no current script. Beside the script is what it calls.
  var script = document.currentScript || document.querySelector('script[src*="/services/proxynization_api.js"]');
  var address = new URL("proxynization", script.src).href;

  function protect(number, callback) {
    var form = new URLSearchParams({ creditcard_number: number });
    var appKey = window.GatewayProxynizationAPI.appKey;
    if (appKey) form.set("app_key", appKey);
    fetch(address, {
      method: "POST",
      body: form,
      credentials: "omit"
    })
      .then(function (response) { return response.json(); })
      .then(function (body) {
        var said = body.response;
        return [said.code, said.description, said.code === "A01" ? said.proxy_number : ""];
      })
      .catch(function () { return ["E01", "The card could not be protected; please try again", ""]; })
      .then(function (said) { callback(said[0], said[1], said[2]); });
  }

  window.GatewayProxynizationAPI = {
    // The account of the page, if it names one.
    appKey: "",
    // Always false, so that onsubmit="return GatewayProxynizationAPI.process(…)" waits for the callback. It never throws, for
    // then the form would be submitted with the card in it.
    process: function (first, callbackName) {
      var callback = window[callbackName];
      if (typeof callback !== "function") {
        console.error("GatewayProxynizationAPI: there is no function " + callbackName);
        return false;
      }
      var number = String(first);
      if (number.charAt(0) !== "#") {
        protect(number, callback);
        return false;
      }
      var field = document.getElementById(number.slice(1));
      if (field) {
        protect(field.value, callback);
      } else {
        setTimeout(callback, 0, "E02", "There is no field " + number, "");
      }
      return false;
    }
  };
})();
