// The wallet script of the sandbox: a wallet with one test card.
//
//   gatewayWalletPay.paymentResponse = function (responseStatus, responseText) { … };   // "S": responseText is the token
//   gatewayWalletPay.paymentRequest(app_key, business_name, amount, currency);
//
// It pays without asking anybody. gatewayWalletPay.testCard may be set to another test card, and gatewayWalletPay.confirm to a
// function that is asked first, such as function (text) { return window.confirm(text); }.
(function () {
  "use strict";
  var base = new URL(document.currentScript.src).origin;

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
      fetch(base + "/services/wallet_token", {
        method: "POST",
        body: new URLSearchParams({
          app_key: appKey,
          amount: amount,
          currency: currency,
          creditcard_number: wallet.testCard
        }),
        credentials: "omit"
      })
        .then(function (response) { return response.json(); })
        .then(function (body) {
          var said = body.response;
          if (said.code === "00") {
            wallet.paymentResponse("S", said.signature_token);
          } else {
            wallet.paymentResponse("F", said.description);
          }
        }, function () {
          wallet.paymentResponse("F", "The wallet did not answer; please try again");
        });
    }
  };
  window.gatewayWalletPay = wallet;
})();
