// The wallet script of the sandbox: a wallet with one test card.
//
//   gatewayWalletPay.paymentResponse = function (responseStatus, responseText) { … };   // "S": responseText is the token
//   gatewayWalletPay.paymentRequest(app_key, business_name, amount, currency);
//
// It pays without asking anybody. gatewayWalletPay.testCard may be set to another test card, and gatewayWalletPay.confirm to a
// function that is asked first, such as function (text) { return window.confirm(text); }.
(function () {
  "use strict";
  // A module or a bundle has no current script. Beside the script is what it calls.
  var script = document.currentScript || document.querySelector('script[src*="/services/walletPaySandbox.js"]');
  var address = new URL("wallet_token", script.src).href;

  function sign(fields) {
    return fetch(address, { method: "POST", body: new URLSearchParams(fields), credentials: "omit" })
      .then(function (response) { return response.json(); })
      .then(function (body) {
        var said = body.response;
        return said.code === "00" ? ["S", said.signature_token] : ["F", said.description];
      })
      .catch(function () { return ["F", "The wallet did not answer; please try again"]; });
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
        .then(function (said) { wallet.paymentResponse(said[0], said[1]); });
    }
  };
  window.gatewayWalletPay = wallet;
})();
