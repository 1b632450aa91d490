// The wallet script of production. This gateway supports no wallet yet, so every request gets "F", and pages with another
// way to pay keep working.
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
