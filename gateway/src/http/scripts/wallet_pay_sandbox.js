// The wallet script of the sandbox: a wallet with one test card.
//
//   gatewayWalletPay.paymentResponse = function (responseStatus, responseText) { … };   // "S": responseText is the token
//   gatewayWalletPay.paymentRequest(app_key, business_name, amount, currency);
//
// It pays without confirmation. Set gatewayWalletPay.testCard to use another test card, and gatewayWalletPay.confirm to a
// function that confirms the payment, such as function (text) { return window.confirm(text); }.
(function () {
  "use strict";
  // Elements with a name replace properties of `document`, such as <img name="currentScript">, but not those of its prototype.
  var currentScript = Object.getOwnPropertyDescriptor(Document.prototype, "currentScript").get;
  var querySelector = Document.prototype.querySelector;
  // In a module or a bundle there is no current script. The endpoint is relative to the script's URL.
  var script = currentScript.call(document) || querySelector.call(document, 'script[src*="/services/walletPaySandbox.js"]');
  var endpoint = new URL("wallet_token", script.src).href;

  function sign(fields) {
    return fetch(endpoint, { method: "POST", body: new URLSearchParams(fields), credentials: "omit" })
      .then(function (response) { return response.json(); })
      .then(function (body) {
        var response = body.response;
        return response.code === "00" ? ["S", response.signature_token] : ["F", response.description];
      })
      .catch(function () { return ["F", "The wallet did not respond; please try again"]; });
  }

  var wallet = {
    testCard: "4111111111111111",
    confirm: null,
    paymentResponse: function () {},
    paymentRequest: function (appKey, businessName, amount, currency) {
      var question = "Sandbox wallet: pay " + amount + " " + currency + " to " + businessName + "?";
      if (wallet.confirm && !wallet.confirm(question)) {
        wallet.paymentResponse("F", "The payment was cancelled");
        return;
      }
      sign({ app_key: appKey, amount: amount, currency: currency, creditcard_number: wallet.testCard })
        .then(function (result) { wallet.paymentResponse(result[0], result[1]); });
    }
  };
  window.gatewayWalletPay = wallet;
})();
