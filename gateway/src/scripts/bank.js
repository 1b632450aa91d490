// The question's time, counted down. It is the gateway's clock that ends it: this only shows how long there is.
(function () {
  "use strict";
  var time = document.getElementById("time");
  var form = document.getElementById("question");
  var over = document.getElementById("over");
  var end = performance.now() + Number(time.dataset.seconds) * 1000;
  var timer;

  function show() {
    var left = Math.ceil((end - performance.now()) / 1000);
    if (left > 0) {
      time.textContent = left + (left === 1 ? " second" : " seconds") + " to decide; then the payment is not made.";
      return;
    }
    clearInterval(timer);
    form.hidden = true;
    time.hidden = true;
    over.hidden = false;
    over.focus();
  }

  // A browser that comes back to the page shows it as it was; how the question stands now, the gateway knows.
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) { window.location.reload(); }
  });
  timer = setInterval(show, 250);
  show();
})();
