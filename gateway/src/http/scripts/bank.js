// Counts down the time to decide. The gateway's clock ends the challenge; this only displays the time left.
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
      time.textContent = time.dataset.text.replace("\ufffc", left);
      return;
    }
    clearInterval(timer);
    form.hidden = true;
    time.hidden = true;
    over.hidden = false;
    over.focus();
  }

  // Going back may restore this page from the browser's cache, so reload it to get the challenge's current state.
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) { window.location.reload(); }
  });
  timer = setInterval(show, 250);
  show();
})();
