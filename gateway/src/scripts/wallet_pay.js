// The wallet script of production. This gateway has no contract with a wallet yet, so every request is answered with "F": a page
// that offers another way to pay goes on working.
(function () {
  "use strict";
  var wallet = {
    paymentResponse: function () {},
    paymentRequest: function () {
      wallet.paymentResponse("F", "No wallet is available");
    }
  };
  window.gatewayWalletPay = wallet;
})();
